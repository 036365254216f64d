import org.apache.hudi.common.util.Option;
import org.apache.hudi.io.ByteArraySeekableDataInputStream;
import org.apache.hudi.io.ByteBufferBackedInputStream;
import org.apache.hudi.io.compress.CompressionCodec;
import org.apache.hudi.io.hfile.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;

/**
 * HFiles with Hudi's own writer and reader (1.2.0). Usage, with the bundle on the class path:
 *   java -cp BUNDLE NativeLogs.java write SPEC OUT: a file from lines "E key base64" (an entry) and "I name base64" (a fact)
 *   java -cp BUNDLE NativeLogs.java read FILE NAME...: the same lines of a file, with the facts of those names
 */
public class NativeLogs {
  public static void main(String[] args) throws Exception {
    if (args[0].equals("write")) {
      HFileContext context = HFileContext.builder().blockSize(65536).compressionCodec(CompressionCodec.GZIP).fileCreationTime(0L).build();
      try (OutputStream out = Files.newOutputStream(Paths.get(args[2])); HFileWriterImpl writer = new HFileWriterImpl(context, out)) {
        for (String line : Files.readAllLines(Paths.get(args[1]))) {
          String[] parts = line.split(" ", 3);
          byte[] value = Base64.getDecoder().decode(parts[2]);
          if (parts[0].equals("E")) {
            writer.append(parts[1], value);
          } else {
            writer.appendFileInfo(parts[1], value);
          }
        }
      }
      return;
    }
    byte[] data = Files.readAllBytes(Paths.get(args[1]));
    try (HFileReaderImpl reader = new HFileReaderImpl(new ByteArraySeekableDataInputStream(new ByteBufferBackedInputStream(data)), data.length)) {
      reader.initializeMetadata();
      PrintStream out = new PrintStream(System.out, true, "UTF-8");
      for (boolean more = reader.seekTo(); more; more = reader.next()) {
        KeyValue one = reader.getKeyValue().get();
        byte[] value = Arrays.copyOfRange(one.getBytes(), one.getValueOffset(), one.getValueOffset() + one.getValueLength());
        out.println("E " + one.getKey().getContentInString() + " " + Base64.getEncoder().encodeToString(value));
      }
      for (String name : Arrays.asList(args).subList(2, args.length)) {
        Option<byte[]> value = reader.getMetaInfo(new UTF8StringKey(name));
        if (value.isPresent()) {
          out.println("I " + name + " " + Base64.getEncoder().encodeToString(value.get()));
        }
      }
    }
  }
}
