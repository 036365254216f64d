# The rows of the py_* tables. `Table` was a prototype of this library's writer; `lakeindex create`, `upsert` and `delete`
# with the same rows make tables that differ in ids, instants and sizes only.
import shutil, decimal, datetime as dt, json
import pyarrow as pa
from prototype import Table
SCH = pa.schema([pa.field('id', pa.string(), False), ('k2', pa.int32()), ('region', pa.string()), ('ts', pa.int64()), ('b', pa.bool_()), ('i', pa.int32()), ('f', pa.float32()), ('d', pa.float64()),
  ('dec', pa.decimal128(10, 2)), ('dec38', pa.decimal128(30, 5)), ('dt', pa.date32()), ('tsp', pa.timestamp('us', 'UTC')), ('bin', pa.binary()), ('st', pa.struct([('x', pa.int32()), ('y', pa.string())])),
  ('arr', pa.list_(pa.int32())), ('mp', pa.map_(pa.string(), pa.float64())), ('val', pa.string())])
R = ['us', 'eu', 'as ia']
def row(n, ver):
    nul = n % 7 == 0
    return dict(zip(SCH.names, (f'k{n:05d}'+('é中' if n%11==0 else ''), n%5, R[n%3], 1000*ver+n, None if nul else n%2==0, None if nul else n, None if nul else n*0.5, n*1.25,
      None if nul else decimal.Decimal(n)/4, None if nul else decimal.Decimal(n)*decimal.Decimal('1000000.12345'), None if nul else dt.date(2020,1,1)+dt.timedelta(days=n),
      None if nul else dt.datetime(2021,1,1,tzinfo=dt.timezone.utc)+dt.timedelta(seconds=n, microseconds=n), None if nul else bytes([n%256,1,2]), None if nul else dict(x=n, y=None if n%2 else f'y{n}'),
      None if nul else ([] if n%5==0 else [n, n+1]), None if nul else [(f'm{n}', float(n)), ('z', None)], f'v{ver}-{n}')))
def df(ns, ver): return pa.Table.from_pylist([row(n, ver) for n in ns], schema=SCH)
if __name__ == '__main__':
    for nm, kw in dict(py_simple=dict(keys=['id'], parts=['region'], order='ts'), py_complex=dict(keys=['id','k2'], parts=['region','k2'], order='ts', hive=True, enc=True), py_nonpart=dict(keys=['id'], order='ts')).items():
        p = './tables/' + nm; shutil.rmtree(p, ignore_errors=True)
        t = Table.create(p, nm, **kw); t.bloom.update(n=300, max_entries=1000)
        if nm == 'py_nonpart': t.bloom['type_code'] = 'SIMPLE'
        r = [t.write(df(range(200), 1), 'INSERT'), t.write(df(list(range(50))+list(range(200, 230)), 2)), t.write(df(range(90, 100), 3), 'DELETE')]
        print(nm, r, len(t.read()))
        json.dump([x[0] for x in r], open(p + '.instants.json', 'w'))
