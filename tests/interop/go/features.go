// Runs features of the Go client with its default settings, and prints a line "NAME<tab>ok" or what was wrong.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	servers []string
	sender  rocketmq.Producer
	run     = strconv.FormatInt(time.Now().UnixMilli()%100000000, 36)
	bg      = context.Background()
)

func topic(name string) string { return name + "-" + run }

func must(condition bool, wrong string) {
	if !condition {
		panic(wrong)
	}
}

func done(err error) {
	if err != nil {
		panic(err.Error())
	}
}

func check(name string, feature func()) {
	outcome := "ok"
	func() {
		defer func() {
			if wrong := recover(); wrong != nil {
				outcome = strings.Join(strings.Fields(fmt.Sprint(wrong)), " ")
			}
		}()
		feature()
	}()
	fmt.Printf("feature\t%s\t%s\n", name, outcome)
}

func send(message *primitive.Message) *primitive.SendResult {
	result, err := sender.SendSync(bg, message)
	done(err)
	must(result.Status == primitive.SendOK, result.String())
	return result
}

// receive starts a consumer of a topic from its beginning and returns the first n messages; no more may come.
func receive(name, filter string, n int, answer func(*primitive.MessageExt) consumer.ConsumeResult, options ...consumer.Option) []*primitive.MessageExt {
	// A name server learns of a new topic a moment after the first send, and this client does not start without a route.
	time.Sleep(500 * time.Millisecond)
	got := make(chan *primitive.MessageExt, 10000)
	all := []consumer.Option{consumer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
		consumer.WithGroupName("g-" + name), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	member, err := rocketmq.NewPushConsumer(append(all, options...)...)
	done(err)
	done(member.Subscribe(name, consumer.MessageSelector{Type: consumer.TAG, Expression: filter},
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			result := consumer.ConsumeSuccess
			for _, message := range messages {
				got <- message
				if answer != nil {
					if context, found := primitive.GetConcurrentlyCtx(ctx); found {
						context.DelayLevelWhenNextConsume = 1
					}
					result = answer(message)
				}
			}
			return result, nil
		}))
	done(member.Start())
	defer member.Shutdown()
	var taken []*primitive.MessageExt
	for len(taken) < n {
		select {
		case message := <-got:
			taken = append(taken, message)
		case <-time.After(60 * time.Second):
			panic(fmt.Sprintf("only %d of %d came", len(taken), n))
		}
	}
	select {
	case message := <-got:
		panic("one more came: " + message.String())
	case <-time.After(300 * time.Millisecond):
	}
	return taken
}

// consume is a program: it prints a line for each message of a topic until it is killed.
func consume(group, name string) {
	member, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
		consumer.WithGroupName(group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	done(err)
	done(member.Subscribe(name, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			fmt.Printf("m %s\n", message.Body)
		}
		return consumer.ConsumeSuccess, nil
	}))
	done(member.Start())
	select {}
}

func main() {
	rlog.SetLogLevel("fatal")
	servers = os.Args[1:2]
	if len(os.Args) > 2 && os.Args[2] == "consume" {
		consume(os.Args[3], os.Args[4])
		return
	}
	if len(os.Args) > 2 {
		transactionsOf(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	var err error
	sender, err = rocketmq.NewProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(servers)), producer.WithGroupName("interop-go"))
	done(err)
	done(sender.Start())
	check("send, and properties", func() {
		message := primitive.NewMessage(topic("send"), []byte("hello"))
		message.WithTag("red").WithKeys([]string{"k1", "k2"}).WithProperty("colour", "grün")
		sent := send(message)
		got := receive(topic("send"), "*", 1, nil)[0]
		must(string(got.Body) == "hello" && got.GetTags() == "red" && got.GetProperty("colour") == "grün", got.String())
		must(got.MsgId == sent.MsgID && got.QueueOffset == sent.QueueOffset, "id or offset")
	})
	check("send async", func() {
		var wait sync.WaitGroup
		for n := 0; n < 20; n++ {
			wait.Add(1)
			done(sender.SendAsync(bg, func(_ context.Context, _ *primitive.SendResult, _ error) { wait.Done() }, primitive.NewMessage(topic("async"), []byte("x"))))
		}
		wait.Wait()
		receive(topic("async"), "*", 20, nil)
	})
	check("send one-way", func() {
		for n := 0; n < 5; n++ {
			done(sender.SendOneWay(bg, primitive.NewMessage(topic("oneway"), []byte("x"))))
		}
		receive(topic("oneway"), "*", 5, nil)
	})
	check("batch", func() {
		var batch []*primitive.Message
		for n := 0; n < 10; n++ {
			batch = append(batch, primitive.NewMessage(topic("batch"), []byte(strconv.Itoa(n))).WithTag("t"))
		}
		_, err := sender.SendSync(bg, batch...)
		done(err)
		receive(topic("batch"), "t", 10, nil)
	})
	check("delay level", func() {
		send(primitive.NewMessage(topic("delay"), []byte("later")).WithDelayTimeLevel(2))
		got := receive(topic("delay"), "*", 1, nil)[0]
		waited := got.StoreTimestamp - got.BornTimestamp
		must(waited >= 4900 && waited < 7000, fmt.Sprintf("stored after %d ms instead of 5000", waited))
	})
	check("body of 4 MiB, compressed", func() {
		body := bytes.Repeat([]byte("x"), 4*1024*1024)
		send(primitive.NewMessage(topic("large"), body))
		must(bytes.Equal(receive(topic("large"), "*", 1, nil)[0].Body, body), "body")
	})
	check("tags", func() {
		for _, tag := range []string{"a", "b", "c", "a"} {
			send(primitive.NewMessage(topic("tags"), []byte(tag)).WithTag(tag))
		}
		receive(topic("tags"), "a || c", 3, nil)
	})
	check("retry", func() {
		send(primitive.NewMessage(topic("retry"), []byte("again")))
		again := receive(topic("retry"), "*", 2, func(message *primitive.MessageExt) consumer.ConsumeResult {
			if message.ReconsumeTimes < 1 {
				return consumer.ConsumeRetryLater
			}
			return consumer.ConsumeSuccess
		})[1]
		must(again.ReconsumeTimes == 1, again.String())
	})
	check("orderly consumer", func() {
		for n := 0; n < 30; n++ {
			send(primitive.NewMessage(topic("orderly"), []byte(strconv.Itoa(n))))
		}
		last := map[int]int64{}
		for _, message := range receive(topic("orderly"), "*", 30, nil, consumer.WithConsumerOrder(true)) {
			before, found := last[message.Queue.QueueId]
			must(!found || before < message.QueueOffset, "out of order")
			last[message.Queue.QueueId] = message.QueueOffset
		}
	})
	check("order by selector", func() {
		hashing, err := rocketmq.NewProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(servers)), producer.WithGroupName("interop-go-order"),
			producer.WithInstanceName("order"), producer.WithQueueSelector(producer.NewHashQueueSelector()))
		done(err)
		done(hashing.Start())
		defer hashing.Shutdown()
		for n := 0; n < 12; n++ {
			_, err := hashing.SendSync(bg, primitive.NewMessage(topic("order"), []byte(fmt.Sprintf("%02d", n))).WithShardingKey(strconv.Itoa(n%3)))
			done(err)
		}
		queues, offsets := map[string]int{}, map[string]int64{}
		for _, message := range receive(topic("order"), "*", 12, nil) {
			key := message.GetShardingKey()
			queue, found := queues[key]
			must(!found || queue == message.Queue.QueueId, "one key in two queues")
			queues[key], offsets[string(message.Body)] = message.Queue.QueueId, message.QueueOffset
		}
		for n := 3; n < 12; n++ {
			must(offsets[fmt.Sprintf("%02d", n-3)] < offsets[fmt.Sprintf("%02d", n)], "out of order")
		}
	})
	check("dead letter", func() {
		send(primitive.NewMessage(topic("dead"), []byte("never")))
		receive(topic("dead"), "*", 1, func(*primitive.MessageExt) consumer.ConsumeResult { return consumer.ConsumeRetryLater }, consumer.WithMaxReconsumeTimes(0))
		receive("%DLQ%g-"+topic("dead"), "*", 1, nil)
	})
	for _, from := range []struct {
		name  string
		where consumer.ConsumeFromWhere
		n     int
	}{{"last", consumer.ConsumeFromLastOffset, 1}, {"first", consumer.ConsumeFromFirstOffset, 2}, {"time", consumer.ConsumeFromTimestamp, 1}} {
		check("consume from "+from.name, func() {
			name := topic("from-" + from.name)
			send(primitive.NewMessage(name, []byte("before")))
			time.Sleep(1500 * time.Millisecond)
			go func() {
				time.Sleep(3 * time.Second)
				sender.SendSync(bg, primitive.NewMessage(name, []byte("after")))
			}()
			receive(name, "*", from.n, nil, consumer.WithConsumeFromWhere(from.where), consumer.WithConsumeTimestamp(time.Now().Format("20060102150405")))
		})
	}
	check("pull consumer", func() {
		for n := 0; n < 10; n++ {
			send(primitive.NewMessage(topic("pull"), []byte(strconv.Itoa(n))))
		}
		time.Sleep(500 * time.Millisecond)
		puller, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
			consumer.WithGroupName("g-"+topic("pull")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
		done(err)
		done(puller.Subscribe(topic("pull"), consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
		done(puller.Start())
		defer puller.Shutdown()
		got := map[string]bool{}
		for until := time.Now().Add(60 * time.Second); len(got) < 10 && time.Now().Before(until); {
			request, err := puller.Poll(bg, 5*time.Second)
			if err != nil || request == nil {
				continue
			}
			for _, message := range request.GetMsgList() {
				got[string(message.Body)] = true
			}
			puller.ACK(bg, request, consumer.ConsumeSuccess)
		}
		must(len(got) == 10, fmt.Sprintf("%d of 10 came", len(got)))
	})
	check("SQL filter", func() {
		name := topic("sql")
		for price := 1; price <= 20; price++ {
			message := primitive.NewMessage(name, []byte(strconv.Itoa(price)))
			message.WithProperty("price", strconv.Itoa(price))
			send(message)
		}
		member, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
			consumer.WithGroupName("g-"+name), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
		done(err)
		got := make(chan string, 100)
		done(member.Subscribe(name, consumer.MessageSelector{Type: consumer.SQL92, Expression: "price > 18"},
			func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				for _, message := range messages {
					got <- string(message.Body)
				}
				return consumer.ConsumeSuccess, nil
			}))
		done(member.Start())
		defer member.Shutdown()
		bodies := map[string]bool{}
		for len(bodies) < 2 {
			select {
			case body := <-got:
				must(body == "19" || body == "20", body+" came")
				bodies[body] = true
			case <-time.After(60 * time.Second):
				panic("too few messages came")
			}
		}
	})
	check("broadcasting", func() {
		send(primitive.NewMessage(topic("broadcast"), []byte("to all")))
		receive(topic("broadcast"), "*", 1, nil, consumer.WithConsumerModel(consumer.BroadCasting))
	})
	check("transaction: commit and rollback", ended)
	check("transaction: unknown, then checked", checked)
	done(sender.Shutdown())
}
