import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;

/** Transactions of a stock producer; as a program: "begin", which dies in its local branch, and "answer". */
public class Transactions {
    static TransactionMQProducer producer(String group, LocalTransactionState local, LocalTransactionState checked) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(Features.nameServer);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                if (local == null) {
                    Runtime.getRuntime().halt(9);
                }
                return local;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checks.add(message);
                return checked;
            }
        });
        producer.start();
        return producer;
    }

    static final BlockingQueue<MessageExt> checks = new LinkedBlockingQueue<>();

    /** NAME SERVER, "begin" or "answer", GROUP, TOPIC. */
    public static void main(String[] arguments) throws Exception {
        Features.nameServer = arguments[0];
        boolean begins = arguments[1].equals("begin");
        TransactionMQProducer producer = producer(arguments[2], begins ? null : LocalTransactionState.UNKNOW, LocalTransactionState.COMMIT_MESSAGE);
        if (begins) {
            producer.sendMessageInTransaction(new Message(arguments[3], Features.bytes("half")), null);
        } else {
            // A producer sends heartbeats only to the brokers of topics that it has sent to.
            producer.send(new Message(arguments[3] + "-other", Features.bytes("plain")));
        }
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }

    static void ended() throws Exception {
        for (LocalTransactionState state : new LocalTransactionState[] {LocalTransactionState.ROLLBACK_MESSAGE, LocalTransactionState.COMMIT_MESSAGE}) {
            TransactionMQProducer producer = producer("interop-" + state, state, LocalTransactionState.UNKNOW);
            TransactionSendResult sent = producer.sendMessageInTransaction(new Message(Features.topic("ended"), "red", Features.bytes(state.name())), null);
            Features.must(sent.getSendStatus() == SendStatus.SEND_OK && sent.getLocalTransactionState() == state, sent.toString());
            Thread.sleep(300);
            producer.shutdown();
        }
        MessageExt got = Features.receive(Features.topic("ended"), "red", 1).get(0);
        Features.must(new String(got.getBody()).equals("COMMIT_MESSAGE"), got.toString());
    }

    static void checked() throws Exception {
        for (LocalTransactionState state : new LocalTransactionState[] {LocalTransactionState.ROLLBACK_MESSAGE, LocalTransactionState.COMMIT_MESSAGE}) {
            TransactionMQProducer producer = producer("interop-checked-" + state, LocalTransactionState.UNKNOW, state);
            Message message = new Message(Features.topic("checked"), "red", "k1", Features.bytes(state.name()));
            message.putUserProperty("colour", "gr\u00fcn");
            SendResult sent = producer.sendMessageInTransaction(message, null);
            MessageExt asked = checks.poll(60, TimeUnit.SECONDS);
            Features.must(asked != null, "no check came");
            Features.must(asked.getMsgId() != null && sent.getMsgId().equals(asked.getTransactionId()), "id of the check");
            Features.must(asked.getTopic().equals(message.getTopic()) && Arrays.equals(asked.getBody(), message.getBody()), "message of the check");
            Features.must("red".equals(asked.getTags()) && "gr\u00fcn".equals(asked.getUserProperty("colour")), "properties of the check");
            Thread.sleep(300);
            producer.shutdown();
        }
        MessageExt got = Features.receive(Features.topic("checked"), "*", 1).get(0);
        Features.must(new String(got.getBody()).equals("COMMIT_MESSAGE"), got.toString());
    }
}
