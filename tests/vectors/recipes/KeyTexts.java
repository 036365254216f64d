// Partition paths from times, and texts of rare values, as real Hudi makes them: tests/vectors/key_texts_{12,15}.json.
// Run with Hudi's Spark bundle and Spark 3.5's jars on the class path, on JDK 17 (later ones print doubles differently):
//   java -cp "hudi-spark3.5-bundle_2.12-1.2.0.jar:$SPARK_HOME/jars/*" KeyTexts.java key_texts_12.json
import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.math.*;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.avro.Schema;
import org.apache.avro.generic.*;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.model.HoodieKey;

public class KeyTexts {
  static final String SCHEMA = "{\"type\":\"record\",\"name\":\"r\",\"fields\":["
      + "{\"name\":\"id\",\"type\":\"string\"},"
      + "{\"name\":\"long\",\"type\":[\"null\",\"long\"]},{\"name\":\"int\",\"type\":[\"null\",\"int\"]},"
      + "{\"name\":\"double\",\"type\":[\"null\",\"double\"]},{\"name\":\"float\",\"type\":[\"null\",\"float\"]},"
      + "{\"name\":\"string\",\"type\":[\"null\",\"string\"]},"
      + "{\"name\":\"date\",\"type\":[\"null\",{\"type\":\"int\",\"logicalType\":\"date\"}]},"
      + "{\"name\":\"decimal7\",\"type\":[\"null\",{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":20,\"scale\":7}]},"
      + "{\"name\":\"decimal20\",\"type\":[\"null\",{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":38,\"scale\":20}]}]}";
  static final Schema schema = new Schema.Parser().parse(SCHEMA);
  static PrintWriter out;
  static boolean first = true;

  static String quoted(String s) {
    StringBuilder b = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c == '"' || c == '\\') b.append('\\').append(c);
      else if (c < 32 || c > 126) b.append(String.format("\\u%04x", (int) c));
      else b.append(c);
    }
    return b.append('"').toString();
  }

  // generator class, partition field, its value, extra properties: prints the case with partition path or error
  static void one(String generator, String field, Object value, String shown, String... settings) {
    TypedProperties properties = new TypedProperties();
    properties.setProperty("hoodie.datasource.write.recordkey.field", "id");
    properties.setProperty("hoodie.datasource.write.partitionpath.field", field);
    StringJoiner kept = new StringJoiner(",", "{", "}");
    for (int i = 0; i < settings.length; i += 2) {
      properties.setProperty(settings[i], settings[i + 1]);
      kept.add(quoted(settings[i]) + ":" + quoted(settings[i + 1]));
    }
    GenericRecord record = new GenericData.Record(schema);
    record.put("id", "a");
    record.put(field, value);
    String result;
    try {
      Object made = Class.forName("org.apache.hudi.keygen." + generator + "AvroKeyGenerator")
          .getConstructor(TypedProperties.class).newInstance(properties);
      HoodieKey key;
      try {
        key = (HoodieKey) made.getClass().getMethod("getKey", GenericRecord.class).invoke(made, record);
      } catch (InvocationTargetException e) {
        throw e.getCause();
      }
      result = "\"path\":" + quoted(key.getPartitionPath());
    } catch (Throwable e) {
      Throwable cause = e;
      while (cause.getCause() != null) cause = cause.getCause();
      result = "\"error\":" + quoted(cause.getClass().getSimpleName() + ": " + cause.getMessage());
    }
    out.print((first ? "" : ",\n") + "{\"generator\":" + quoted(generator) + ",\"field\":" + quoted(field) + ",\"value\":"
        + shown + ",\"settings\":" + kept + "," + result + "}");
    first = false;
  }

  static final String P = "hoodie.keygen.timebased.";

  static void times() {
    String[] formats = {"yyyy/MM/dd HH", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", "yy M d H", "xxxx-'W'ww-e EEE", "yyyyMMdd", "DDD", "MMM MMMM EEEE",
        "hh a", "K k h", "ZZ", "SS", "SSSSS", "yyyyy", "''yyyy''", "d/M/y"};
    String[] zones = {"UTC", "GMT+5:30", "America/New_York", "Asia/Kolkata", "Europe/Paris", "GMT-08:00", ""};
    long[] millis = {0L, 1L, -1L, 1609459200123L, 951782399999L, 1382835599000L, 1382835600000L, -2208988800000L, 253402300800000L,
        4102444800000L, -62135596800001L, 1704067199999L};
    for (String format : formats)
      for (long m : millis)
        one("TimestampBased", "long", m, "" + m, P + "timestamp.type", "EPOCHMILLISECONDS", P + "output.dateformat", format, P + "timezone", "UTC");
    for (String zone : zones)
      for (long m : millis)
        if (m > -2208988800000L && !zone.isEmpty())
          one("TimestampBased", "long", m, "" + m, P + "timestamp.type", "EPOCHMILLISECONDS", P + "output.dateformat", "yyyy-MM-dd HH:mm Z", P + "output.timezone", zone);
    for (String unit : new String[] {"NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS", "seconds"})
      for (long m : new long[] {0L, -1L, -999L, -1001L, 1609459200L, Long.MAX_VALUE, Long.MIN_VALUE})
        one("TimestampBased", "long", m, "" + m, P + "timestamp.type", "SCALAR", P + "timestamp.scalar.time.unit", unit, P + "output.dateformat", "yyyy/MM/dd HH:mm:ss.SSS", P + "timezone", "UTC");
    for (String type : new String[] {"UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR", "DATE_STRING", "MIXED"}) {
      String[] base = {P + "timestamp.type", type, P + "output.dateformat", "yyyy/MM/dd HH:mm", P + "input.dateformat", "yyyy-MM-dd HH", P + "timezone", "UTC"};
      one("TimestampBased", "long", null, "null", base);
      one("TimestampBased", "string", null, "null", base);
      one("TimestampBased", "long", 1609459200L, "1609459200", base);
      one("TimestampBased", "int", 1609459200, "1609459200", base);
      one("TimestampBased", "double", 1609459200.75, "1609459200.75", base);
      one("TimestampBased", "double", -1609459200.75, "-1609459200.75", base);
      one("TimestampBased", "float", 16.5f, "16.5", base);
      one("TimestampBased", "date", 18262, "18262", base);
      one("TimestampBased", "string", "2020-02-29 23", "\"2020-02-29 23\"", base);
      one("TimestampBased", "string", "nonsense", "\"nonsense\"", base);
      one("TimestampBased", "string", "", "\"\"", base);
      one("TimestampBased", "decimal7", decimal("12345678901", 7), "\"1234.5678901\"", base);
    }
    String[] texts = {"2020-02-29", "2020-2-9", "2021-02-29", "2020-13-01", "2020-00-10", "02020-02-09", "-0044-03-15", "20200229", " 2020-02-29",
        "2020-02-29T23:59:59.999Z", "2020-02-29T23:59:59.9+05:30", "2020-02-29T24:00:00.000Z", "2020-02-29T23:59:60.000Z", "2020-02-29T01:02:03.123456Z", "2020/02", "Feb 29, 2020 11 PM", "february 29, 2020 12 am"};
    for (String text : texts)
      for (String zone : new String[] {"UTC", "America/New_York"})
        one("TimestampBased", "string", text, quoted(text), P + "timestamp.type", "DATE_STRING", P + "output.dateformat", "yyyy-MM-dd HH:mm:ss.SSS",
            P + "input.dateformat", "yyyy-MM-dd; yyyyMMdd;yyyy-MM-dd'T'HH:mm:ss.SSSZ;yyyy/MM;MMM d, yyyy hh a",
            P + "input.dateformat.list.delimiter.regex", ";", P + "timezone", zone);
    for (String text : new String[] {"2020-02-29T23:59:59+05:30", "2020-02-29T23:59:59Z", "2020-02-29T23:59:59-0800"})
      for (String[] zones2 : new String[][] {{"UTC", "UTC"}, {"", "Asia/Kolkata"}, {"America/New_York", "Europe/Paris"}, {"Asia/Kolkata", ""}, {"", ""}}) {
        List<String> s = new ArrayList<>(List.of(P + "timestamp.type", "DATE_STRING", P + "output.dateformat", "yyyy-MM-dd HH:mm Z", P + "input.dateformat", "yyyy-MM-dd'T'HH:mm:ssZ"));
        if (!zones2[0].isEmpty()) s.addAll(List.of(P + "input.timezone", zones2[0]));
        if (!zones2[1].isEmpty()) s.addAll(List.of(P + "output.timezone", zones2[1]));
        one("TimestampBased", "string", text, quoted(text), s.toArray(new String[0]));
      }
    for (String text : new String[] {"2013-03-10 02:30", "2013-03-10 03:30", "2013-11-03 01:30", "2013-11-03 00:30"})
      one("TimestampBased", "string", text, quoted(text), P + "timestamp.type", "DATE_STRING", P + "output.dateformat", "yyyy-MM-dd HH:mm Z",
          P + "input.dateformat", "yyyy-MM-dd HH:mm", P + "input.timezone", "America/New_York", P + "output.timezone", "UTC");
  }

  static ByteBuffer decimal(String unscaled, int scale) {
    return ByteBuffer.wrap(new BigInteger(unscaled).toByteArray());
  }

  static void texts() {
    for (String unscaled : new String[] {"0", "1", "-1", "10", "12345678", "99999999999999999999"})
      for (int scale : new int[] {7, 20})
        one("Simple", "decimal" + scale, decimal(unscaled, scale), quoted(new BigDecimal(new BigInteger(unscaled), scale).toPlainString()));
    for (int day : new int[] {2932896, 2932897, -719162, -719163, -719529, 0, -1, 5000000}) one("Simple", "date", day, "" + day);
    Random random = new Random(17);
    List<Double> doubles = new ArrayList<>(List.of(0.0, -0.0, 1e-3, 9.999e-4, 1e7, 9999999.0, 2e23, 1e23, 1e22, Double.MIN_VALUE, Double.MAX_VALUE,
        Double.MIN_NORMAL, 2.2250738585072014E-308, 4.35, 1.1, 123456789.125, -5.684341886080802E-14, 2.0E-3, 8.41E21, 9007199254740993.0));
    for (int i = 0; i < 150; i++) doubles.add(Double.longBitsToDouble(random.nextLong()));
    for (double d : doubles) if (!Double.isNaN(d)) one("Simple", "double", d, quoted(Long.toString(Double.doubleToRawLongBits(d))));
    List<Float> floats = new ArrayList<>(List.of(0f, -0f, 1e-3f, 2e-3f, 1e7f, 3.4e10f, 1e10f, 16777216f, 33554432f, Float.MIN_VALUE, Float.MAX_VALUE, 0.1f));
    // in these Java's long arithmetic overflows while it rounds the last digit
    for (int bits : new int[] {1761607680, 1781801694, 1785263001, -361166786, 1786288751, 1781508539}) floats.add(Float.intBitsToFloat(bits));
    for (int i = 0; i < 150; i++) floats.add(Float.intBitsToFloat(random.nextInt()));
    for (float f : floats) if (!Float.isNaN(f)) one("Simple", "float", f, quoted(Integer.toString(Float.floatToRawIntBits(f))));
  }

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    System.setProperty("user.timezone", "UTC");
    out = new PrintWriter(new OutputStreamWriter(new FileOutputStream(arguments[0]), "UTF-8"));
    out.print("[\n");
    times();
    texts();
    out.print("\n]\n");
    out.close();
  }
}
