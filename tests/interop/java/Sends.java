import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;

/** NAME SERVER, SECONDS: sync sends of 256 bytes from 64 threads; prints how many there were in each second after a warm-up. */
public class Sends {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("interop-sends");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        int seconds = Integer.parseInt(arguments[1]);
        LongAdder sent = new LongAdder();
        AtomicBoolean over = new AtomicBoolean();
        byte[] body = new byte[256];
        producer.send(new Message("sends", body));
        Thread[] threads = new Thread[64];
        for (int n = 0; n < threads.length; n++) {
            threads[n] = new Thread(() -> {
                while (!over.get()) {
                    try {
                        producer.send(new Message("sends", body));
                        sent.increment();
                    } catch (Exception error) {
                        System.err.println(error);
                    }
                }
            });
            threads[n].start();
        }
        Thread.sleep(5000);
        long before = sent.sum(), began = System.nanoTime();
        Thread.sleep(seconds * 1000L);
        System.out.println("rate\t" + (sent.sum() - before) * 1000000000L / (System.nanoTime() - began));
        over.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        producer.shutdown();
        System.exit(0);
    }
}
