import sys, os
from pyspark.sql import SparkSession
import glob
def jar(v): return glob.glob(os.path.expanduser(f'~/.m2/repository/org/apache/hudi/**/hudi-spark3.5-bundle_2.12-{v}.jar'),recursive=True)[0]
def sess(v,extra=None):
    b=(SparkSession.builder.master('local[2]').appName('hudi'+v).config('spark.jars',jar(v)).config('spark.driver.memory','2g')
      .config('spark.driver.extraClassPath',jar(v))
      .config('spark.serializer','org.apache.spark.serializer.KryoSerializer').config('spark.sql.extensions','org.apache.spark.sql.hudi.HoodieSparkSessionExtension')
      .config('spark.sql.catalog.spark_catalog','org.apache.spark.sql.hudi.catalog.HoodieCatalog').config('spark.kryo.registrator','org.apache.spark.HoodieSparkKryoRegistrar')
      .config('spark.ui.enabled','false').config('spark.ui.showConsoleProgress','false').config('spark.sql.shuffle.partitions','2').config('spark.default.parallelism','2').config('spark.sql.session.timeZone','UTC').config('spark.driver.extraJavaOptions','-Duser.timezone=UTC').config('spark.driver.bindAddress','127.0.0.1').config('spark.driver.host','127.0.0.1').config('spark.sql.warehouse.dir','spark-warehouse'))
    for k,x in (extra or {}).items(): b=b.config(k,x)
    s=b.getOrCreate(); s.sparkContext.setLogLevel('ERROR'); return s
