import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.exception.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

/** Runs each feature of a stock client with its default settings, and prints a line "NAME<tab>ok" or what was wrong. */
public class Features {
    static String nameServer;
    static DefaultMQProducer producer;
    static final String run = Long.toString(System.currentTimeMillis() % 100000000L, 36);

    interface Check {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        nameServer = arguments[0];
        only = arguments.length > 1 ? arguments[1] : "";
        producer = new DefaultMQProducer("interop-producer");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        check("send, and properties", Features::send);
        check("send async", Features::sendAsync);
        check("send one-way", Features::sendOneWay);
        check("batch", Features::batch);
        check("order by selector", Features::selector);
        check("delay level", Features::delay);
        check("body of 4 MiB, compressed", Features::large);
        check("tags", Features::tags);
        check("retry", Features::retry);
        check("dead letter", Features::deadLetter);
        check("orderly consumer", Features::orderly);
        check("broadcasting", Features::broadcasting);
        check("consume from last", () -> from(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, 1));
        check("consume from first", () -> from(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, 2));
        check("consume from time", () -> from(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, 1));
        check("lite pull consumer", Features::litePull);
        check("pull consumer", Features::pull);
        check("transaction: commit and rollback", Transactions::ended);
        check("transaction: unknown, then checked", Transactions::checked);
        check("SQL filter", Features::sql);
        check("SQL filter, a wrong one refused", Features::wrongSql);
        if (Popping.isThere()) {
            check("assignment by the broker", Popping::assigned);
            check("POP", Popping::popped);
            check("POP: failed, and again", Popping::again);
        }
        producer.shutdown();
        System.exit(0);
    }

    static String only = "";

    static void check(String name, Check check) {
        if (!name.matches(".*(" + only + ").*")) {
            return;
        }
        String outcome = "ok";
        try {
            check.run();
        } catch (Throwable error) {
            outcome = String.valueOf(error).replaceAll("\\s+", " ");
        }
        System.out.println("feature\t" + name + "\t" + outcome);
    }

    static void must(boolean condition, String wrong) {
        if (!condition) {
            throw new IllegalStateException(wrong);
        }
    }

    static String topic(String name) {
        return name + "-" + run;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** A consumer of a topic from its beginning, which puts every message into a queue. */
    static DefaultMQPushConsumer consumer(String topic, String filter, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g-" + topic);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, filter);
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    static List<MessageExt> receive(String topic, String filter, int n) throws Exception {
        BlockingQueue<MessageExt> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = consumer(topic, filter, (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        List<MessageExt> all = take(got, n);
        consumer.shutdown();
        return all;
    }

    static <T> List<T> take(BlockingQueue<T> queue, int n) throws Exception {
        List<T> all = new ArrayList<>();
        while (all.size() < n) {
            // A client looks every 30 s for new topics, such as the retry topic of its group, and rebalances every 20 s.
            T one = queue.poll(60, TimeUnit.SECONDS);
            must(one != null, "only " + all.size() + " of " + n + " came");
            all.add(one);
        }
        T more = queue.poll(300, TimeUnit.MILLISECONDS);
        must(more == null, "one more came: " + more);
        return all;
    }

    static void send() throws Exception {
        Message message = new Message(topic("send"), "red", "k1 k2", bytes("hello"));
        message.putUserProperty("colour", "gr\u00fcn");
        message.setFlag(7);
        SendResult sent = producer.send(message);
        must(sent.getSendStatus() == SendStatus.SEND_OK, sent.toString());
        MessageExt got = receive(topic("send"), "*", 1).get(0);
        must(Arrays.equals(got.getBody(), bytes("hello")), "body");
        must("red".equals(got.getTags()) && "k1 k2".equals(got.getKeys()), "tag or keys");
        must("gr\u00fcn".equals(got.getUserProperty("colour")) && got.getFlag() == 7, "property or flag");
        must(got.getMsgId().equals(sent.getMsgId()) && got.getQueueOffset() == sent.getQueueOffset(), "id or offset");
    }

    static void sendAsync() throws Exception {
        BlockingQueue<Object> results = new LinkedBlockingQueue<>();
        for (int n = 0; n < 20; n++) {
            producer.send(new Message(topic("async"), bytes("" + n)), new SendCallback() {
                public void onSuccess(SendResult result) {
                    results.add(result);
                }

                public void onException(Throwable error) {
                    results.add(error);
                }
            });
        }
        for (Object result : take(results, 20)) {
            must(result instanceof SendResult, result.toString());
        }
        receive(topic("async"), "*", 20);
    }

    static void sendOneWay() throws Exception {
        for (int n = 0; n < 5; n++) {
            producer.sendOneway(new Message(topic("oneway"), bytes("" + n)));
        }
        receive(topic("oneway"), "*", 5);
    }

    static void batch() throws Exception {
        List<Message> batch = new ArrayList<>();
        for (int n = 0; n < 10; n++) {
            batch.add(new Message(topic("batch"), "t", "k" + n, bytes("" + n)));
        }
        SendResult sent = producer.send(batch);
        must(sent.getOffsetMsgId().split(",").length == 10, sent.toString());
        List<MessageExt> got = receive(topic("batch"), "t", 10);
        for (MessageExt message : got) {
            must(message.getQueueId() == got.get(0).getQueueId(), "several queues");
        }
    }

    static void selector() throws Exception {
        for (int n = 0; n < 12; n++) {
            producer.send(new Message(topic("order"), bytes("" + n)), (queues, message, key) -> queues.get((Integer) key % queues.size()), n % 3);
        }
        Map<Integer, List<Integer>> orders = new TreeMap<>();
        List<MessageExt> got = receive(topic("order"), "*", 12);
        got.sort(Comparator.comparingLong(MessageExt::getQueueOffset));
        for (MessageExt message : got) {
            orders.computeIfAbsent(message.getQueueId(), id -> new ArrayList<>()).add(Integer.parseInt(new String(message.getBody())));
        }
        must(orders.size() == 3, "queues " + orders);
        for (List<Integer> order : orders.values()) {
            must(order.size() == 4 && order.stream().sorted().toList().equals(order), "order " + orders);
        }
    }

    static void delay() throws Exception {
        Message message = new Message(topic("delay"), bytes("later"));
        message.setDelayTimeLevel(2);
        producer.send(message);
        MessageExt got = receive(topic("delay"), "*", 1).get(0);
        long waited = got.getStoreTimestamp() - got.getBornTimestamp();
        must(waited >= 4900 && waited < 7000, "stored after " + waited + " ms instead of 5000");
    }

    static void large() throws Exception {
        byte[] body = new byte[4 * 1024 * 1024];
        Arrays.fill(body, (byte) 'x');
        producer.send(new Message(topic("large"), body));
        byte[] random = new byte[1024 * 1024];
        new Random(1).nextBytes(random);
        producer.send(new Message(topic("large"), random));
        List<MessageExt> got = receive(topic("large"), "*", 2);
        for (MessageExt message : got) {
            must(Arrays.equals(message.getBody(), message.getBody().length == body.length ? body : random), "body");
        }
    }

    static void tags() throws Exception {
        for (String tag : new String[] {"a", "b", "c", "a"}) {
            producer.send(new Message(topic("tags"), tag, bytes(tag)));
        }
        for (MessageExt message : receive(topic("tags"), "a || c", 3)) {
            must(!"b".equals(message.getTags()), "an unwanted tag");
        }
    }

    static void retry() throws Exception {
        producer.send(new Message(topic("retry"), bytes("again")));
        BlockingQueue<MessageExt> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = consumer(topic("retry"), "*", (messages, context) -> {
            got.addAll(messages);
            context.setDelayLevelWhenNextConsume(1);
            return messages.get(0).getReconsumeTimes() < 1 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        MessageExt again = take(got, 2).get(1);
        consumer.shutdown();
        must(again.getReconsumeTimes() == 1 && again.getTopic().equals(topic("retry")), again.toString());
    }

    static void deadLetter() throws Exception {
        producer.send(new Message(topic("dead"), bytes("never")));
        BlockingQueue<MessageExt> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = consumer(topic("dead"), "*", (messages, context) -> {
            got.addAll(messages);
            context.setDelayLevelWhenNextConsume(-1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        take(got, 1);
        consumer.shutdown();
        Thread.sleep(500);
        receive("%DLQ%g-" + topic("dead"), "*", 1);
    }

    static void orderly() throws Exception {
        for (int n = 0; n < 30; n++) {
            producer.send(new Message(topic("orderly"), bytes("" + n)), (queues, message, key) -> queues.get((Integer) key % queues.size()), n % 3);
        }
        BlockingQueue<MessageExt> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g-" + topic("orderly"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic("orderly"), "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            got.addAll(messages);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Map<Integer, Long> last = new HashMap<>();
        for (MessageExt message : take(got, 30)) {
            Long before = last.put(message.getQueueId(), message.getQueueOffset());
            must(before == null || before < message.getQueueOffset(), "out of order");
        }
        consumer.shutdown();
    }

    static void broadcasting() throws Exception {
        producer.send(new Message(topic("broadcast"), bytes("to all")));
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String name : new String[] {"one", "two"}) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g-" + topic("broadcast"));
            consumer.setInstanceName(name);
            consumer.setNamesrvAddr(nameServer);
            broadcast(consumer);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic("broadcast"), "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                got.add(name);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        must(new TreeSet<>(take(got, 2)).size() == 2, "one member got both");
        consumers.forEach(DefaultMQPushConsumer::shutdown);
    }

    /** Its enumeration has another package in 4.9 than in 5. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        for (java.lang.reflect.Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class) method.getParameterTypes()[0], "BROADCASTING"));
            }
        }
    }

    static void from(ConsumeFromWhere where, int n) throws Exception {
        String topic = topic("from" + where.ordinal());
        producer.send(new Message(topic, bytes("before")));
        Thread.sleep(1500);
        BlockingQueue<MessageExt> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g-" + topic);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(where);
        consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(System.currentTimeMillis()));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.sleep(2000);
        producer.send(new Message(topic, bytes("after")));
        take(got, n);
        consumer.shutdown();
    }

    static void litePull() throws Exception {
        for (int n = 0; n < 10; n++) {
            producer.send(new Message(topic("lite"), bytes("" + n)));
        }
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("g-" + topic("lite"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic("lite"), "*");
        consumer.start();
        Set<String> got = new HashSet<>();
        long until = System.currentTimeMillis() + 60000;
        while (got.size() < 10 && System.currentTimeMillis() < until) {
            consumer.poll(1000).forEach(message -> got.add(new String(message.getBody())));
        }
        must(got.size() == 10, "only " + got.size() + " of 10 came");
        consumer.shutdown();
    }

    static void pull() throws Exception {
        SendResult sent = producer.send(new Message(topic("pull"), "t", bytes("pulled")));
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("g-" + topic("pull"));
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
        MessageQueue queue = sent.getMessageQueue();
        must(consumer.fetchSubscribeMessageQueues(topic("pull")).contains(queue), "no such queue");
        must(consumer.minOffset(queue) == 0 && consumer.maxOffset(queue) == 1, "offsets");
        PullResult result = consumer.pull(queue, "t", sent.getQueueOffset(), 32);
        must(result.getPullStatus() == PullStatus.FOUND && result.getMsgFoundList().size() == 1, result.toString());
        consumer.shutdown();
    }

    static void sql() throws Exception {
        String topic = topic("sql");
        for (int price = 1; price <= 20; price++) {
            Message message = new Message(topic, price % 2 == 0 ? "even" : "odd", bytes("" + price));
            message.putUserProperty("price", "" + price);
            message.putUserProperty("region", price > 15 ? "north" : "south");
            producer.send(message);
        }
        BlockingQueue<MessageExt> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g-" + topic);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql("price BETWEEN 5 AND 18 AND region = 'north' AND TAGS IN ('even')"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Set<String> bodies = new HashSet<>();
        take(got, 2).forEach(message -> bodies.add(new String(message.getBody())));
        consumer.shutdown();
        must(bodies.equals(Set.of("16", "18")), bodies.toString());
    }

    static void wrongSql() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g-sql-" + run);
        consumer.setNamesrvAddr(nameServer);
        consumer.subscribe(topic("sql"), MessageSelector.bySql("a >"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        try {
            consumer.start();
            must(false, "it was not refused");
        } catch (MQClientException refused) {
            must(refused.getResponseCode() == 23, refused.toString());
        } finally {
            consumer.shutdown();
        }
    }
}
