// A user of servers with access control, as a client for Java: `java -Dtls=false Users ADDRESS TOPIC POLL_S NAME SECRET
// ACT...`, where ACT is `send` or `receive`, or both. It prints "ok", or what the client reports.
import java.time.Duration;
import java.util.List;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;

public class Users {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Features.pollS = Integer.parseInt(arguments[2]);
        Features.configuration = ClientConfiguration.newBuilder().setEndpoints(arguments[0])
            .setCredentialProvider(new StaticSessionCredentialsProvider(arguments[3], arguments[4]))
            .enableSsl(Boolean.getBoolean("tls")).setRequestTimeout(Duration.ofSeconds(3)).build();
        List<String> acts = List.of(arguments).subList(5, arguments.length);
        String outcome = "ok";
        try {
            SimpleConsumer consumer = acts.contains("receive") ? Features.simple(topic, topic + "-g", "*") : null;
            if (acts.contains("send")) {
                Features.producer = Features.provider.newProducerBuilder()
                    .setClientConfiguration(Features.configuration).setTopics(topic).build();
                Features.producer.send(Features.message(topic, "hello"));
            }
            if (acts.size() == 2) {
                consumer.ack(Features.take(consumer, 1, 20).get(0));
            }
        } catch (Throwable error) {
            StringBuilder causes = new StringBuilder();
            for (Throwable each = error; each != null; each = each.getCause()) {
                causes.append(causes.isEmpty() ? "" : "; caused by ").append(each);
            }
            outcome = causes.toString().replaceAll("\\s+", " ");
        }
        System.out.println(outcome);
        Runtime.getRuntime().halt(0);
    }
}
