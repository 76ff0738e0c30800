import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's own tools one after the other in one JVM. Each line of the file that is named is a class and its
 * arguments, with tabs between; behind the output of each stands a line with \u0001 and its exit status.
 */
public class Tools {
    private static Integer status;

    static class Exited extends RuntimeException {
    }

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (status == null)
                status = code; // a tool may catch what is thrown here and exit again
            throw new Exited();
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited();
        });
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            String[] words = line.split("\t");
            status = null;
            try {
                Class<?> tool = Class.forName(words[0]);
                String[] rest = Arrays.copyOfRange(words, 1, words.length);
                tool.getMethod("main", String[].class).invoke(null, (Object) rest);
            } catch (InvocationTargetException e) {
                if (!(e.getCause() instanceof Exited))
                    throw e;
            }
            System.out.println("\u0001" + (status == null ? 0 : status));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
