import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Consumers that leave the assignment of queues to the broker, which lets them pull or pop. Clients of 4.9 cannot. */
public class Popping {
    static final int MESSAGES = 20;

    static boolean isThere() {
        return Arrays.stream(DefaultMQPushConsumer.class.getMethods()).anyMatch(each -> each.getName().equals("setClientRebalance"));
    }

    static DefaultMQPushConsumer member(String topic, String name, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g-" + topic);
        consumer.setNamesrvAddr(Features.nameServer);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    /** Send messages; returns the address of the broker. */
    static String send(String topic) throws Exception {
        SendResult sent = null;
        for (int n = 0; n < MESSAGES; n++) {
            sent = Features.producer.send(new Message(topic, "t", Features.bytes("" + n)));
        }
        java.net.InetSocketAddress store = (java.net.InetSocketAddress) MessageDecoder.decodeMessageId(sent.getOffsetMsgId().split(",")[0]).getAddress();
        return store.getAddress().getHostAddress() + ":" + store.getPort();
    }

    static void pop(String broker, String topic, int share) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(Features.nameServer);
        admin.start();
        Class<?> mode = Class.forName("org.apache.rocketmq.common.message.MessageRequestMode");
        for (java.lang.reflect.Method method : DefaultMQAdminExt.class.getMethods()) {
            if (method.getName().equals("setMessageRequestMode")) {
                Object pop = mode.getField("POP").get(null);
                method.invoke(admin, broker, topic, "g-" + topic, pop, share, 5000L);
            }
        }
        admin.shutdown();
    }

    static void assigned() throws Exception {
        String topic = Features.topic("assigned");
        send(topic);
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        Map<String, Set<Integer>> queues = new ConcurrentHashMap<>();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (String name : new String[] {"one", "two"}) {
            members.add(member(topic, name, (messages, context) -> {
                queues.computeIfAbsent(name, key -> ConcurrentHashMap.newKeySet()).add(context.getMessageQueue().getQueueId());
                messages.forEach(each -> got.add(new String(each.getBody())));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }));
        }
        Features.must(new HashSet<>(Features.take(got, MESSAGES)).size() == MESSAGES, "messages came twice");
        Thread.sleep(3000);
        queues.clear();
        send(topic);
        Features.take(got, MESSAGES);
        Features.must(queues.size() == 2 && Collections.disjoint(queues.get("one"), queues.get("two")), "queues " + queues);
        members.forEach(DefaultMQPushConsumer::shutdown);
    }

    static void popped() throws Exception {
        String topic = Features.topic("popped");
        pop(send(topic), topic, 0);
        BlockingQueue<MessageExt> got = new LinkedBlockingQueue<>();
        MessageListenerConcurrently listener = (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
        DefaultMQPushConsumer first = member(topic, "one", listener);
        Set<String> bodies = new HashSet<>();
        for (MessageExt message : Features.take(got, MESSAGES)) {
            bodies.add(new String(message.getBody()));
            Features.must(message.getProperty("POP_CK") != null && "t".equals(message.getTags()), "it was not popped: " + message);
        }
        Features.must(bodies.size() == MESSAGES, "messages came twice");
        Thread.sleep(1000);
        first.shutdown();
        DefaultMQPushConsumer second = member(topic, "two", listener);
        send(topic);
        Features.take(got, MESSAGES);
        second.shutdown();
    }

    static void again() throws Exception {
        String topic = Features.topic("again");
        pop(send(topic), topic, 0);
        BlockingQueue<Integer> times = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = member(topic, "one", (messages, context) -> {
            messages.forEach(each -> times.add(each.getReconsumeTimes()));
            return messages.get(0).getReconsumeTimes() == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Collection<Integer> all = Features.take(times, 2 * MESSAGES);
        Features.must(Collections.frequency(all, 0) == MESSAGES && Collections.frequency(all, 1) == MESSAGES, "deliveries " + all);
        consumer.shutdown();
    }
}
