import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * Writes the answers of RocketMQ's filter library into answers.txt: for each filter and message T, F, N (NULL) or E (an
 * exception), or "refused" for a filter that it does not take. To run it again, with rocketmq-filter 5.3.3, guava and
 * commons-lang3 (Maven) in CP: java -cp $CP Answers.java answers.txt
 */
public class Answers {
    public static void main(String[] args) throws Exception {
        Path file = Path.of(args[0]);
        List<Map<String, String>> messages = new ArrayList<>();
        List<String> out = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            String[] parts = line.split("\t", -1);
            if (line.startsWith("#")) {
                out.add(line);
            } else if (parts[0].equals("message")) {
                Map<String, String> properties = new HashMap<>();
                for (int n = 1; n < parts.length; n++) {
                    int at = parts[n].indexOf('=');
                    properties.put(parts[n].substring(0, at), plain(parts[n].substring(at + 1)));
                }
                messages.add(properties);
                out.add(line);
            } else {
                out.add(judged(plain(parts[1]), messages) + "\t" + parts[1]);
            }
        }
        Files.write(file, out);
    }

    private static String plain(String text) {
        return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0");
    }

    private static String judged(String filter, List<Map<String, String>> messages) {
        Expression compiled;
        try {
            compiled = SelectorParser.parse(filter);
        } catch (Throwable refused) {
            return "refused";
        }
        StringBuilder answers = new StringBuilder();
        for (Map<String, String> message : messages) {
            EvaluationContext context = new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return message.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return new HashMap<>(message);
                }
            };
            try {
                Object value = compiled.evaluate(context);
                answers.append(value == null ? "N" : value == Boolean.TRUE ? "T" : value == Boolean.FALSE ? "F" : "?");
            } catch (Throwable thrown) {
                answers.append("E");
            }
        }
        return answers.toString();
    }
}
