import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.*;

/** A cluster for one test: two brokers in processes, no JVM, stopped at the end. Needs `rlab` on the PATH. */
class KilledConsumerTest {
    static Process cluster;
    static String nameServer;

    @BeforeAll
    static void start() throws Exception {
        cluster = rlab("cluster", "--port", "0", "--brokers", "2", "--topic", "orders", "--json");
        nameServer = cluster.inputReader().readLine().replaceAll(".*?\"address\": ?\"([^\"]+)\".*", "$1");
    }

    @AfterAll
    static void stop() throws Exception {
        cluster.destroy();
        cluster.waitFor();
    }

    @Test
    void theOthersTakeOverFromAConsumerThatIsKilled() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        Set<String> got = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("orders", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> got.add(new String(message.getBody())));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        Process victim = rlab("consume", "orders", "--group", "billing", "--from", "earliest", "--namesrv", nameServer);
        while (victim.getInputStream().available() == 0) { // until it has a part of the queues
            producer.send(new Message("orders", "early".getBytes()));
            Thread.sleep(20);
        }
        victim.destroyForcibly().waitFor();
        for (int n = 0; n < 100; n++) {
            producer.send(new Message("orders", ("order " + n).getBytes()));
        }
        for (int tenths = 0; got.size() < 101 && tenths < 300; tenths++) {
            Thread.sleep(100);
        }
        got.remove("early");
        assertEquals(100, got.size());
        consumer.shutdown();
        producer.shutdown();
    }

    static Process rlab(String... command) throws Exception {
        List<String> all = new ArrayList<>(List.of("rlab"));
        all.addAll(List.of(command));
        return new ProcessBuilder(all).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }
}
