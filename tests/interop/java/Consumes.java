import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** NAME SERVER, GROUP, MESSAGES: consumes "sends" from its begin; prints how many there were in each second. */
public class Consumes {
    public static void main(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[1]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("sends", "*");
        long wanted = Long.parseLong(arguments[2]);
        AtomicLong seen = new AtomicLong(), began = new AtomicLong();
        CountDownLatch over = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            began.compareAndSet(0, System.nanoTime());
            if (seen.addAndGet(messages.size()) >= wanted) {
                over.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        over.await();
        System.out.println("rate\t" + wanted * 1000000000L / (System.nanoTime() - began.get()));
        System.exit(0);
    }
}
