import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import java.io.*; import java.util.*;
/** One member of a group: NAME SERVER, GROUP, TOPIC, orderly or concurrent, ms for a message, and a name that it may have; a line for each message: begin ns, end ns, topic, broker, queue, offset, body. */
public class Member {
  public static void main(String[] a) throws Exception {
    String ns=a[0], group=a[1], topic=a[2], kind=a[3]; long ms=Long.parseLong(a[4]);
    DefaultMQPushConsumer c=new DefaultMQPushConsumer(group); c.setNamesrvAddr(ns); c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    if(a.length>5) { c.setClientIP("127.0.0.1"); c.setInstanceName(a[5]); }
    c.subscribe(topic,"*");
    if(kind.equals("orderly")) c.registerMessageListener((MessageListenerOrderly)(m,x)->{ log(m,ms); return ConsumeOrderlyStatus.SUCCESS; });
    else c.registerMessageListener((MessageListenerConcurrently)(m,x)->{ log(m,ms); return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; });
    c.start(); System.out.println("ready "+now()); System.out.flush();
    while(System.in.read()>=0); c.shutdown(); System.exit(0);
  }
  static void log(List<MessageExt> ms, long sleep) { for(MessageExt m:ms) { long b=now(); if(sleep>0) try{Thread.sleep(sleep);}catch(InterruptedException e){}
      String s="m "+b+" "+now()+" "+m.getTopic()+" "+m.getBrokerName()+" "+m.getQueueId()+" "+m.getQueueOffset()+" "+new String(m.getBody()); synchronized(System.out){System.out.println(s);} } }
  static long now(){ java.time.Instant i=java.time.Instant.now(); return i.getEpochSecond()*1000000000L+i.getNano(); }
}
