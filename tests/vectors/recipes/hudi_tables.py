import sys,json,os,shutil,datetime as dt,decimal,time; sys.path.insert(0,'./')
from hudi_session import sess
v=sys.argv[1]; which=sys.argv[2].split(',') ; OUT='./tables'
s=sess(v)
from pyspark.sql import types as T
sch=T.StructType([T.StructField('id',T.StringType(),False),T.StructField('k2',T.IntegerType()),T.StructField('region',T.StringType()),T.StructField('ts',T.LongType()),
 T.StructField('b',T.BooleanType()),T.StructField('i',T.IntegerType()),T.StructField('f',T.FloatType()),T.StructField('d',T.DoubleType()),
 T.StructField('dec',T.DecimalType(10,2)),T.StructField('dec38',T.DecimalType(30,5)),T.StructField('dt',T.DateType()),T.StructField('tsp',T.TimestampType()),
 T.StructField('bin',T.BinaryType()),T.StructField('st',T.StructType([T.StructField('x',T.IntegerType()),T.StructField('y',T.StringType())])),
 T.StructField('arr',T.ArrayType(T.IntegerType())),T.StructField('mp',T.MapType(T.StringType(),T.DoubleType())),T.StructField('val',T.StringType())])
R=['us','eu','as ia']
def row(n,ver):
    nul=n%7==0
    return (f'k{n:05d}'+('é中' if n%11==0 else ''),n%5,R[n%3],1000*ver+n,None if nul else n%2==0,None if nul else n,None if nul else n*0.5,n*1.25,
      None if nul else decimal.Decimal(n)/4,None if nul else decimal.Decimal(n)*decimal.Decimal('1000000.12345'),None if nul else dt.date(2020,1,1)+dt.timedelta(days=n),
      None if nul else dt.datetime(2021,1,1,tzinfo=dt.timezone.utc)+dt.timedelta(seconds=n,microseconds=n),None if nul else bytes([n%256,1,2]),None if nul else (n,None if n%2 else f'y{n}'),
      None if nul else ([] if n%5==0 else [n,n+1]),None if nul else {f'm{n}':float(n),'z':None},f'v{ver}-{n}')
def df(ns,ver): return s.createDataFrame([row(n,ver) for n in ns],sch).coalesce(1)
def base(name,**o):
    b={'hoodie.table.name':name,'hoodie.datasource.write.recordkey.field':'id','hoodie.datasource.write.partitionpath.field':'region','hoodie.datasource.write.precombine.field':'ts',
     'hoodie.upsert.shuffle.parallelism':'2','hoodie.insert.shuffle.parallelism':'2','hoodie.bulkinsert.shuffle.parallelism':'2','hoodie.delete.shuffle.parallelism':'2','hoodie.metadata.enable':'false','hoodie.index.type':'BLOOM','hoodie.bloom.index.parallelism':'2','hoodie.clean.automatic':'false','hoodie.embed.timeline.server':'false','hoodie.index.bloom.num_entries':'300','hoodie.bloom.index.filter.dynamic.max.entries':'1000'}
    if v.startswith('1'): b['hoodie.write.table.version']='6'
    b.update({k.replace('__','.'):x for k,x in o.items()}); return b
def write(d,path,opts,op='upsert',mode='append'):
    o=dict(opts); o['hoodie.datasource.write.operation']=op
    t=time.time(); d.write.format('hudi').options(**o).mode(mode).save(path); print('wrote',path,op,round(time.time()-t,1),flush=True)
def expect(path,name,order='id'):
    d=s.read.format('hudi').load(path).drop('_hoodie_commit_seqno','_hoodie_file_name') if False else s.read.format('hudi').load(path)
    out=f'{OUT}/{name}.expected.json'
    rows=sorted(d.toJSON().collect()); open(out,'w').write('\n'.join(rows)+'\n'); print(name,len(rows),flush=True)
tag=v.replace('.','')
def T_main(name,opts,clus=True):
    p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True)
    write(df(range(300),1),p,opts,'insert','overwrite')
    write(df(list(range(0,60))+list(range(300,340)),2),p,opts)
    write(df(range(100,130),3),p,opts,'delete')
    o=dict(opts); 
    if clus: o.update({'hoodie.clustering.inline':'true','hoodie.clustering.inline.max.commits':'1','hoodie.clustering.plan.strategy.sort.columns':'id','hoodie.clustering.plan.strategy.small.file.limit':'1000000000'})
    write(df(range(200,220),4),p,o)
    expect(p,name)
    return p
if 'main' in which: T_main(f'h{tag}_v6_main',base('main'))
if 'inflight' in which:
    name=f'h{tag}_v6_inflight'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True); o=base('infl')
    write(df(range(100),1),p,o,'insert','overwrite'); write(df(range(50),2),p,o)
    expect(p,name)
    write(df(range(40,120),3),p,o)
    cs=sorted(f for f in os.listdir(p+'/.hoodie') if f.endswith('.commit')); os.remove(p+'/.hoodie/'+cs[-1]); 
    for f in ('.'+cs[-1]+'.crc',): 
        if os.path.exists(p+'/.hoodie/'+f): os.remove(p+'/.hoodie/'+f)
    p2=p.replace('inflight','rolledback'); shutil.rmtree(p2,ignore_errors=True); shutil.copytree(p,p2)
    write(df(range(60,70),4),p2,o); expect(p2,name.replace('inflight','rolledback'))
if 'complex' in which:
    name=f'h{tag}_v6_complex'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True)
    o=base('cplx',**{'hoodie.datasource.write.recordkey.field':'id,k2','hoodie.datasource.write.partitionpath.field':'region,k2','hoodie.datasource.write.keygenerator.class':'org.apache.hudi.keygen.ComplexKeyGenerator','hoodie.datasource.write.hive_style_partitioning':'true','hoodie.datasource.write.partitionpath.urlencode':'true'})
    write(df(range(120),1),p,o,'insert','overwrite'); write(df(range(30),2),p,o); expect(p,name)
if 'nonpart' in which:
    name=f'h{tag}_v6_nonpart'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True)
    o=base('np',**{'hoodie.datasource.write.partitionpath.field':'','hoodie.datasource.write.keygenerator.class':'org.apache.hudi.keygen.NonpartitionedKeyGenerator','hoodie.bloom.index.filter.type':'SIMPLE'})
    write(df(range(120),1),p,o,'bulk_insert','overwrite'); write(df(range(30),2),p,o); expect(p,name)
if 'bucket' in which:
    name=f'h{tag}_v6_bucket'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True)
    o=base('bk',**{'hoodie.index.type':'BUCKET','hoodie.bucket.index.num.buckets':'4','hoodie.bucket.index.hash.field':'id'})
    write(df(range(120),1),p,o,'upsert','overwrite'); write(df(range(30),2),p,o); expect(p,name)
if 'mdt' in which:
    name=f'h{tag}_v6_mdt'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True)
    o=base('mdt',**{'hoodie.metadata.enable':'true'})
    write(df(range(120),1),p,o,'upsert','overwrite'); write(df(range(30),2),p,o); expect(p,name)
if 'clean' in which:
    name=f'h{tag}_v6_clean'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True)
    o=base('cl',**{'hoodie.clean.automatic':'true','hoodie.cleaner.policy':'KEEP_LATEST_FILE_VERSIONS','hoodie.cleaner.fileversions.retained':'1','hoodie.keep.min.commits':'2','hoodie.keep.max.commits':'3','hoodie.cleaner.commits.retained':'1'})
    write(df(range(60),1),p,o,'upsert','overwrite')
    for i in range(2,6): write(df(range(20),i),p,o)
    expect(p,name)
if 'extra' in which:
    import traceback
    try:
        name=f'h{tag}_v6_consistent'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True)
        o=base('ch',**{'hoodie.index.type':'BUCKET','hoodie.index.bucket.engine':'CONSISTENT_HASHING','hoodie.bucket.index.num.buckets':'4','hoodie.bucket.index.hash.field':'id','hoodie.storage.layout.type':'BUCKET','hoodie.storage.layout.partitioner.class':'org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner'})
        write(df(range(120),1),p,o,'upsert','overwrite'); write(df(range(30),2),p,o); expect(p,name)
    except Exception as e: print('EXC consistent COW',str(e)[:600])
    try:
        name=f'h{tag}_v6_savepoint'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True); o=base('sp')
        write(df(range(40),1),p,o,'upsert','overwrite'); write(df(range(10),2),p,o); write(df(range(5),3),p,o,'insert_overwrite')
        ts=sorted(f for f in os.listdir(p+'/.hoodie') if f.endswith('.commit'))[0].split('.')[0]
        s.sql(f"call create_savepoint(path => '{p}', commit_time => '{ts}')").show(); 
        expect(p,name)
    except Exception as e: print('EXC savepoint',str(e)[:600])
    try:
        name=f'h{tag}_v6_mdtfull'; p=f'{OUT}/{name}'; shutil.rmtree(p,ignore_errors=True); o=base('mf',**{'hoodie.metadata.enable':'true','hoodie.metadata.index.bloom.filter.enable':'true','hoodie.metadata.index.column.stats.enable':'true','hoodie.metadata.record.index.enable':'true','hoodie.metadata.record.index.min.filegroup.count':'2','hoodie.metadata.record.index.max.filegroup.count':'2','hoodie.index.type':'RECORD_INDEX'})
        write(df(range(40),1),p,o,'upsert','overwrite'); write(df(range(10),2),p,o); expect(p,name)
    except Exception as e: print('EXC mdtfull',str(e)[:600])
for tv in ('8','9'):
    if 'v'+tv in which: 
        T_main(f'h{tag}_v{tv}_main',base('main',**{'hoodie.write.table.version':tv}))
s.stop()
