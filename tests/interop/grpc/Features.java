// The features of RocketMQ's gRPC client for Java, one after another: `java -Dtls=true Features ADDRESS PREFIX POLL_S
// RETRY_S FEATURE...`: those, or all. A receive waits POLL_S, and a failed message comes again within RETRY_S.
// Each uses the topic `PREFIX-number` and the group `PREFIX-number-g`, which exist already.
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public class Features {
    interface Feature {
        void run(String topic, String group) throws Exception;
    }

    record Named(String name, String kind, Feature feature) {}

    /** What a push consumer has received: body, number of the delivery, time. */
    record Got(String body, int attempt, long ms) {}

    static final ClientServiceProvider provider = ClientServiceProvider.loadService();
    static final long WAIT_MS = 40_000;
    static int pollS = 2;
    static int retryS = 16;
    static ClientConfiguration configuration;
    static Producer producer;

    static final List<Named> FEATURES = List.of(
        new Named("send, and properties", "NORMAL", Features::send),
        new Named("body of 4 MiB", "NORMAL", Features::large),
        new Named("unknown topic refused", "NORMAL", Features::unknownTopic),
        new Named("delay", "DELAY", Features::delay),
        new Named("recall", "DELAY", Features::recall),
        new Named("simple: acknowledged once", "NORMAL", Features::acknowledge),
        new Named("simple: redelivered", "NORMAL", Features::comesAgain),
        new Named("simple: longer invisible", "NORMAL", Features::changeInvisible),
        new Named("simple: empty receive", "NORMAL", Features::emptyReceive),
        new Named("tags", "NORMAL", Features::tags),
        new Named("push", "NORMAL", Features::push),
        new Named("push: retry", "NORMAL", Features::retry),
        new Named("push: two members share", "NORMAL", Features::twoMembers),
        new Named("push: FIFO in order", "FIFO", Features::fifo),
        new Named("transaction: commit, rollback", "TRANSACTION", Features::transactions),
        new Named("transaction: checked elsewhere", "TRANSACTION", Features::orphans));

    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[1];
        if (arguments.length > 2 && arguments[2].equals("--list")) {
            for (int n = 0; n < FEATURES.size(); n++) {
                System.out.println(prefix + "-" + n + "\t" + FEATURES.get(n).kind());
            }
            return;
        }
        if (arguments.length > 3) {
            pollS = Integer.parseInt(arguments[2]);
            retryS = Integer.parseInt(arguments[3]);
        }
        configuration = ClientConfiguration.newBuilder()
            .setEndpoints(arguments[0]).enableSsl(Boolean.getBoolean("tls")).setRequestTimeout(Duration.ofSeconds(3)).build();
        String[] topics = IntStream.range(0, FEATURES.size()).mapToObj(n -> prefix + "-" + n).toArray(String[]::new);
        // Without a checker it must not be a producer of topics whose transactions are checked.
        String[] unchecked = IntStream.range(0, topics.length).filter(n -> !FEATURES.get(n).kind().equals("TRANSACTION"))
            .mapToObj(n -> topics[n]).toArray(String[]::new);
        producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(unchecked).build();
        Set<String> chosen = Set.of(Arrays.copyOfRange(arguments, Math.min(4, arguments.length), arguments.length));
        for (int n = 0; n < topics.length; n++) {
            if (!chosen.isEmpty() && !chosen.contains(FEATURES.get(n).name())) {
                continue;
            }
            String outcome = "ok";
            try {
                FEATURES.get(n).feature().run(topics[n], topics[n] + "-g");
            } catch (Throwable error) {
                String text = error.toString().replaceAll("\\s+", " ");
                outcome = text.substring(0, Math.min(170, text.length()));
            }
            System.out.println("feature\t" + FEATURES.get(n).name() + "\t" + outcome);
        }
        producer.close();
        System.exit(0);
    }

    static void must(boolean condition, Object wrong) {
        if (!condition) {
            throw new IllegalStateException(String.valueOf(wrong));
        }
    }

    static MessageBuilder message(String topic, byte[] body) {
        return provider.newMessageBuilder().setTopic(topic).setBody(body);
    }

    static Message message(String topic, String body) {
        return message(topic, body.getBytes(StandardCharsets.UTF_8)).build();
    }

    static byte[] bytes(MessageView message) {
        ByteBuffer body = message.getBody();
        byte[] found = new byte[body.remaining()];
        body.get(found);
        return found;
    }

    static String text(MessageView message) {
        return new String(bytes(message), StandardCharsets.UTF_8);
    }

    static Map<String, FilterExpression> subscribed(String topic, String tags) {
        return Collections.singletonMap(topic, new FilterExpression(tags));
    }

    /** A simple consumer that has received once: its group is at the end of each queue. */
    static SimpleConsumer simple(String topic, String group, String tags) throws Exception {
        SimpleConsumer consumer = provider.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(pollS))
            .setSubscriptionExpressions(subscribed(topic, tags)).build();
        for (int n = 0; n < 4; n++) { // each receive is of the next queue, as the client counts
            consumer.receive(1, Duration.ofSeconds(10));
        }
        return consumer;
    }

    static List<MessageView> take(SimpleConsumer consumer, int n, int seconds) throws Exception {
        List<MessageView> found = new ArrayList<>();
        long end = System.currentTimeMillis() + WAIT_MS;
        while (found.size() < n && System.currentTimeMillis() < end) {
            found.addAll(consumer.receive(16, Duration.ofSeconds(seconds)));
        }
        must(found.size() == n, found.size() + " messages instead of " + n);
        return found;
    }

    /** A push consumer that has received once; it fails for the bodies of `fails` the first time. */
    static PushConsumer pushing(String topic, String group, BlockingQueue<Got> got, String... fails) throws Exception {
        List<String> failing = Collections.synchronizedList(new ArrayList<>(Arrays.asList(fails)));
        PushConsumer consumer = provider.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setSubscriptionExpressions(subscribed(topic, "*"))
            .setMessageListener(message -> {
                String body = text(message);
                got.add(new Got(body, message.getDeliveryAttempt(), System.currentTimeMillis()));
                return failing.remove(body) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
        Thread.sleep(4000);
        return consumer;
    }

    static List<Got> until(BlockingQueue<Got> queue, int n) throws Exception {
        List<Got> found = new ArrayList<>();
        while (found.size() < n) {
            Got one = queue.poll(WAIT_MS, TimeUnit.MILLISECONDS);
            must(one != null, found.size() + " messages instead of " + n);
            found.add(one);
        }
        return found;
    }

    static List<String> bodies(List<Got> all) {
        return all.stream().map(Got::body).collect(Collectors.toList());
    }

    static List<String> sorted(List<String> all) {
        return all.stream().sorted().collect(Collectors.toList());
    }

    static List<String> sent(String topic, int n) throws Exception {
        List<String> all = new ArrayList<>();
        for (int each = 0; each < n; each++) {
            all.add(String.format("%03d", each));
            producer.send(message(topic, all.get(each)));
        }
        return all;
    }

    static void send(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        SendReceipt receipt = producer.send(message(topic, "hello".getBytes(StandardCharsets.UTF_8))
            .setTag("red").setKeys("k1").addProperty("mine", "\u00fc").build());
        MessageView got = take(consumer, 1, 20).get(0);
        must(text(got).equals("hello") && got.getTag().orElse("").equals("red"), got);
        must(got.getKeys().contains("k1") && "\u00fc".equals(got.getProperties().get("mine")), got);
        must(got.getMessageId().equals(receipt.getMessageId()), got);
        consumer.ack(got);
        consumer.close();
    }

    static void large(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        byte[] body = new byte[4 * 1024 * 1024];
        Arrays.fill(body, (byte) 'x');
        producer.send(message(topic, body).build());
        MessageView got = take(consumer, 1, 20).get(0);
        must(Arrays.equals(bytes(got), body), "body");
        consumer.ack(got);
        consumer.close();
    }

    static void unknownTopic(String topic, String group) throws Exception {
        try {
            producer.send(message(topic + "-nowhere", "x"));
        } catch (Exception error) {
            must(error.toString().contains("NotFound"), error);
            return;
        }
        throw new IllegalStateException("it was sent");
    }

    static SendReceipt delayed(String topic, String body, long due) throws Exception {
        return producer.send(message(topic, body.getBytes(StandardCharsets.UTF_8)).setDeliveryTimestamp(due).build());
    }

    static void delay(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        long due = System.currentTimeMillis() + 4000;
        delayed(topic, "later", due);
        MessageView got = take(consumer, 1, 20).get(0);
        must(System.currentTimeMillis() >= due - 100, "it came too soon");
        consumer.ack(got);
        consumer.close();
    }

    static void recall(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        long due = System.currentTimeMillis() + 4000;
        SendReceipt recalled = delayed(topic, "recalled", due);
        delayed(topic, "other", due);
        must(producer.recallMessage(topic, recalled.getRecallHandle()).getMessageId().equals(recalled.getMessageId()), recalled);
        MessageView got = take(consumer, 1, 20).get(0);
        must(text(got).equals("other"), text(got));
        consumer.ack(got);
        must(consumer.receive(16, Duration.ofSeconds(10)).isEmpty(), "the recalled message came");
        consumer.close();
    }

    static void acknowledge(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        producer.send(message(topic, "one"));
        MessageView got = take(consumer, 1, 10).get(0);
        consumer.ack(got);
        Thread.sleep(11_000);
        must(consumer.receive(16, Duration.ofSeconds(10)).isEmpty(), "it came again");
        consumer.close();
    }

    static void comesAgain(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        producer.send(message(topic, "one"));
        take(consumer, 1, 10);
        long began = System.currentTimeMillis();
        MessageView again = take(consumer, 1, 10).get(0);
        must(text(again).equals("one") && again.getDeliveryAttempt() == 2, again);
        must(System.currentTimeMillis() - began > 5000, "too soon");
        consumer.ack(again);
        consumer.close();
    }

    static void changeInvisible(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        producer.send(message(topic, "one"));
        MessageView got = take(consumer, 1, 10).get(0);
        consumer.changeInvisibleDuration(got, Duration.ofSeconds(30));
        Thread.sleep(11_000);
        must(consumer.receive(16, Duration.ofSeconds(10)).isEmpty(), "it came again");
        consumer.ack(got);
        consumer.close();
    }

    static void emptyReceive(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        long began = System.currentTimeMillis();
        must(consumer.receive(16, Duration.ofSeconds(10)).isEmpty(), "a message");
        long waited = System.currentTimeMillis() - began;
        must(waited > pollS * 500 && waited < (pollS + 4) * 1000, waited);
        consumer.close();
    }

    static void tags(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "a||b");
        for (String tag : new String[] {"a", "b", "c"}) {
            producer.send(message(topic, tag.getBytes(StandardCharsets.UTF_8)).setTag(tag).build());
        }
        List<MessageView> got = take(consumer, 2, 20);
        must(sorted(got.stream().map(Features::text).collect(Collectors.toList())).equals(List.of("a", "b")), got);
        for (MessageView each : got) {
            consumer.ack(each);
        }
        consumer.close();
    }

    static void push(String topic, String group) throws Exception {
        BlockingQueue<Got> got = new LinkedBlockingQueue<>();
        PushConsumer consumer = pushing(topic, group, got);
        List<String> sent = sent(topic, 50);
        must(sorted(bodies(until(got, 50))).equals(sent), "other messages");
        Thread.sleep(2000);
        must(got.isEmpty(), got);
        consumer.close();
    }

    static void retry(String topic, String group) throws Exception {
        BlockingQueue<Got> got = new LinkedBlockingQueue<>();
        PushConsumer consumer = pushing(topic, group, got, "fails");
        producer.send(message(topic, "fails"));
        List<Got> two = until(got, 2);
        must(two.get(0).attempt() == 1 && two.get(1).attempt() == 2, two);
        long waited = two.get(1).ms() - two.get(0).ms();
        must(waited > 9000 && waited < retryS * 1000, waited);
        consumer.close();
    }

    static void twoMembers(String topic, String group) throws Exception {
        List<BlockingQueue<Got>> queues = List.of(new LinkedBlockingQueue<>(), new LinkedBlockingQueue<>());
        List<PushConsumer> consumers = List.of(pushing(topic, group, queues.get(0)), pushing(topic, group, queues.get(1)));
        List<String> sent = sent(topic, 200);
        long end = System.currentTimeMillis() + WAIT_MS;
        while (queues.get(0).size() + queues.get(1).size() < 200 && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        List<Got> all = new ArrayList<>(queues.get(0));
        all.addAll(queues.get(1));
        must(sorted(bodies(all)).equals(sent), all.size() + " messages");
        must(!queues.get(0).isEmpty() && !queues.get(1).isEmpty(), "one member got all");
        for (PushConsumer consumer : consumers) {
            consumer.close();
        }
    }

    static void fifo(String topic, String group) throws Exception {
        BlockingQueue<Got> got = new LinkedBlockingQueue<>();
        PushConsumer consumer = pushing(topic, group, got);
        for (int n = 0; n < 20; n++) {
            byte[] body = String.format("%02d", n).getBytes(StandardCharsets.UTF_8);
            producer.send(message(topic, body).setMessageGroup("group-" + n % 2).build());
        }
        List<String> all = bodies(until(got, 20));
        for (int parity = 0; parity < 2; parity++) {
            int of = parity;
            List<String> mine = all.stream().filter(body -> Integer.parseInt(body) % 2 == of).collect(Collectors.toList());
            must(mine.equals(sorted(mine)), mine);
        }
        consumer.close();
    }

    /** A producer of transactions, which answers checks in this way. */
    static Producer checking(String topic, TransactionResolution resolution, BlockingQueue<String> asked) throws Exception {
        return provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
            .setTransactionChecker(message -> {
                asked.add(text(message));
                return resolution;
            }).build();
    }

    static Transaction begun(Producer sender, String topic, String body) throws Exception {
        Transaction transaction = sender.beginTransaction();
        sender.send(message(topic, body), transaction);
        return transaction;
    }

    static void transactions(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        Producer sender = checking(topic, TransactionResolution.COMMIT, new LinkedBlockingQueue<>());
        begun(sender, topic, "no").rollback();
        Transaction transaction = begun(sender, topic, "yes");
        must(consumer.receive(16, Duration.ofSeconds(10)).isEmpty(), "a half message came");
        transaction.commit();
        MessageView got = take(consumer, 1, 20).get(0);
        must(text(got).equals("yes"), got);
        consumer.ack(got);
        consumer.close();
        sender.close();
    }

    static void orphans(String topic, String group) throws Exception {
        SimpleConsumer consumer = simple(topic, group, "*");
        Producer gone = checking(topic, TransactionResolution.ROLLBACK, new LinkedBlockingQueue<>());
        begun(gone, topic, "orphan");
        gone.close();
        BlockingQueue<String> asked = new LinkedBlockingQueue<>();
        Producer other = checking(topic, TransactionResolution.COMMIT, asked);
        MessageView got = take(consumer, 1, 20).get(0);
        must(text(got).equals("orphan") && asked.contains("orphan"), got + " " + asked);
        consumer.ack(got);
        consumer.close();
        other.close();
    }
}
