// Sends 256 bytes from 64 threads: `java Sends ADDRESS TOPIC SECONDS` prints how many a second, after 10 s to warm up.
import java.time.Duration;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.producer.Producer;

public class Sends {
    static final int THREADS = 64, WARM_UP_S = 10; // of the servers, too: the proxy is a new Java machine

    public static void main(String[] arguments) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(arguments[0]).enableSsl(false).setRequestTimeout(Duration.ofSeconds(10)).build();
        Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(arguments[1]).build();
        int seconds = Integer.parseInt(arguments[2]);
        byte[] body = new byte[256];
        LongAdder sent = new LongAdder(), failed = new LongAdder();
        for (int n = 0; n < THREADS; n++) {
            Thread thread = new Thread(() -> {
                while (true) {
                    try {
                        producer.send(provider.newMessageBuilder().setTopic(arguments[1]).setBody(body).build());
                        sent.increment();
                    } catch (Exception error) {
                        failed.increment();
                        System.err.println(error);
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep(WARM_UP_S * 1000L);
        System.out.println("warm");
        long began = System.nanoTime(), before = sent.sum();
        Thread.sleep(seconds * 1000L);
        double passedS = (System.nanoTime() - began) / 1e9;
        System.out.println("rate\t" + Math.round((sent.sum() - before) / passedS) + "\t" + failed.sum());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
