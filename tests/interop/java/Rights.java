import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.acl.common.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Users of a cluster with access control, each a client that signs with AclClientRPCHook: NAME SERVER, USER, and what it does.
 * `member GROUP TOPIC` is a member until its standard input ends, with a line for each message; `commit GROUP TOPIC OTHER` is a
 * member of its own group on TOPIC, and commits an offset of that group on OTHER; `send TOPIC N` sends messages.
 */
public class Rights {
    public static void main(String[] a) throws Exception {
        String server = a[0], user = a[1];
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(user, "secret-of-" + user));
        if (a[2].equals("send")) {
            DefaultMQProducer producer = new DefaultMQProducer("p", hook);
            producer.setNamesrvAddr(server);
            producer.start();
            for (int n = 0; n < Integer.parseInt(a[4]); n++) {
                producer.send(new Message(a[3], ("m" + n).getBytes(StandardCharsets.UTF_8)));
            }
            producer.shutdown();
            say("sent");
            System.exit(0);
        }
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(a[3], hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(server);
        consumer.setInstanceName(user);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(a[4], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                say("m " + message.getTopic() + " " + new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("ready");
        if (a[2].equals("commit")) {
            Thread.sleep(3000);
            MessageQueue queue = new MessageQueue(a[5], "broker-a", 0);
            try {
                // The same request as that of each consumer every 5 s, but not one-way, so that the answer is seen.
                consumer.getDefaultMQPushConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, 0, false);
                say("committed " + queue);
            } catch (Exception error) {
                say("refused " + String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
            }
        }
        while (System.in.read() >= 0) {
        }
        consumer.shutdown();
        System.exit(0);
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
