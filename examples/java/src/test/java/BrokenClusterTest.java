import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.*;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A consumer of RocketMQ on a cluster that breaks when the test says, without a sleep. */
class BrokenClusterTest {
    @RegisterExtension
    static final RlabExtension cluster = new RlabExtension("--topic", "orders");

    @Test
    void nothingIsLostWhileConnectionsAreCutAndTheOthersAreKilled() throws Exception {
        Set<String> got = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(cluster.nameServer());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("orders", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> got.add(new String(message.getBody())));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        String other = cluster.addConsumer("billing", "orders");
        cluster.await("billing", "stable", "members=2");
        cluster.act(other, "kill");
        cluster.await("billing", "stable", "members=1");

        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(cluster.nameServer());
        producer.start();
        try (RlabExtension.Fault slow = cluster.fault("delay", "code", "PULL_MESSAGE", "by_s", 0.05)) {
            for (int n = 0; n < 100; n++) {
                producer.send(new Message("orders", ("order " + n).getBytes()));
                if (n == 50) {
                    cluster.fault("cut", "group", "billing");
                }
            }
        }
        cluster.await("billing", "consumed");
        assertEquals(100, got.size());
        consumer.shutdown();
        producer.shutdown();
    }
}
