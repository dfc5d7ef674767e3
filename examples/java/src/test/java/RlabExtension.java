import java.net.URI;
import java.net.http.*;
import java.util.regex.*;
import org.junit.jupiter.api.extension.*;

/**
 * A cluster for the tests of one class: it breaks when a test says, and barriers say when it is whole again.
 *
 * <pre>
 * @RegisterExtension
 * static final RlabExtension cluster = new RlabExtension("--topic", "orders");
 * ...
 * try (RlabExtension.Fault fault = cluster.fault("drop", "code", "NOTIFY_CONSUMER_IDS_CHANGED")) { ... }
 * cluster.await("billing", "stable", "members=2");
 * </pre>
 *
 * Copy this file. Needs `rlab` on the PATH, or RLAB_FAULT_CONTROL and RLAB_FAULT_TOKEN of a cluster that runs; and no library.
 */
public class RlabExtension implements BeforeAllCallback, AfterEachCallback, AfterAllCallback {
    private final String[] options;
    private final HttpClient http = HttpClient.newHttpClient();
    private Process process;
    private String control;
    private String token;
    private String nameServer;

    public RlabExtension(String... options) {
        this.options = options;
    }

    /** Its name server, for clients. */
    public String nameServer() {
        return nameServer;
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        control = System.getenv("RLAB_FAULT_CONTROL");
        token = System.getenv("RLAB_FAULT_TOKEN");
        if (control == null || token == null) {
            var command = new java.util.ArrayList<>(
                java.util.List.of("rlab", "cluster", "--port", "0", "--control", "0", "--json", "--exit-with-stdin"));
            command.addAll(java.util.List.of(options));
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            String line = process.inputReader().readLine();
            control = text(line, "control");
            token = text(line, "token");
        }
        nameServer = text(ask("GET", "/v1/processes", null), "name_server");
    }

    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        ask("POST", "/v1/heal", null);
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        if (process != null) {
            process.destroy();
            process.waitFor();
        }
    }

    /** A fault; it is healed at the end of the block. */
    public record Fault(RlabExtension cluster, String id) implements AutoCloseable {
        @Override
        public void close() throws Exception {
            cluster.ask("DELETE", "/v1/faults/" + id, null);
        }
    }

    /** Begin a fault of docs/testing.md; columns are names and values in turns. */
    public Fault fault(String verb, Object... columns) throws Exception {
        StringBuilder body = new StringBuilder("{\"do\": \"" + verb + "\"");
        for (int n = 0; n < columns.length; n += 2) {
            Object value = columns[n + 1];
            body.append(", \"").append(columns[n]).append("\": ");
            body.append(value instanceof Number ? value : "\"" + value + "\"");
        }
        return new Fault(this, text(ask("POST", "/v1/faults", body + "}"), "id"));
    }

    /** Do to a process: kill, pause, resume, start, stop, restart. */
    public void act(String process, String verb) throws Exception {
        ask("POST", "/v1/processes/" + process + "/" + verb, null);
    }

    /** Start a consumer in a process of its own, which takes messages and does nothing; returns that process. */
    public String addConsumer(String group, String topic) throws Exception {
        String body = "{\"group\": \"" + group + "\", \"topic\": \"" + topic + "\"}";
        return text(ask("POST", "/v1/consumers", body), "process");
    }

    /** Wait for a barrier of docs/testing.md, given as name=value; an error says what is missing at the time limit. */
    public void await(String group, String barrier, String... given) throws Exception {
        ask("GET", "/v1/groups/" + group + "/wait/" + barrier + "?timeout_s=30&" + String.join("&", given), null);
    }

    /** The answer to one request, as JSON. */
    public String ask(String method, String path, String body) throws Exception {
        var content = body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body);
        var request = HttpRequest.newBuilder(URI.create("http://" + control + path.replace(" ", "%20")))
            .header("Authorization", "Bearer " + token).method(method, content).build();
        var answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new AssertionError(method + " " + path + ": " + answer.body());
        }
        return answer.body();
    }

    private static String text(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": ?\"?([^\",}]+)").matcher(json);
        if (!found.find()) {
            throw new AssertionError("no " + name + " in " + json);
        }
        return found.group(1);
    }
}
