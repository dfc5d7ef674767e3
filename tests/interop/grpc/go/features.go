// The features of RocketMQ's gRPC client for Go, one after another: `features ADDRESS PREFIX POLL_S RETRY_S FEATURE...`:
// those, or all. A receive waits POLL_S, and a failed message comes again within RETRY_S. Each uses the topic
// `PREFIX-number` and the group `PREFIX-number-g`, which exist already. TLS is the client's variable of the environment.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	mq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const wait = 40 * time.Second

var (
	address        string
	poll, retry    = 2 * time.Second, 16 * time.Second
	producer       mq.Producer
	bg             = context.Background()
	user           = &credentials.SessionCredentials{}
	resolutionsFor = map[bool]mq.TransactionResolution{true: mq.COMMIT, false: mq.ROLLBACK}
)

type feature struct {
	name, kind string
	run        func(topic, group string)
}

// received is what a push consumer has got.
type received struct {
	body    string
	attempt int32
	at      time.Time
}

func must(condition bool, wrong ...any) {
	if !condition {
		panic(fmt.Sprint(wrong...))
	}
}

func done(err error) {
	if err != nil {
		panic(err.Error())
	}
}

func message(topic, body string) *mq.Message {
	return &mq.Message{Topic: topic, Body: []byte(body)}
}

// start starts the producer of these topics.
func start(topics ...string) {
	var err error
	producer, err = mq.NewProducer(&mq.Config{Endpoint: address, Credentials: user}, mq.WithTopics(topics...))
	done(err)
	done(producer.Start())
}

func send(one *mq.Message) *mq.SendReceipt {
	receipts, err := producer.Send(bg, one)
	done(err)
	return receipts[0]
}

func sendAll(topic string, n int) []string {
	all := make([]string, n)
	for each := range all {
		all[each] = fmt.Sprintf("%03d", each)
		send(message(topic, all[each]))
	}
	return all
}

// simple is a simple consumer that has received twice: its group is at the end of each queue.
func simple(topic, group, tags string) mq.SimpleConsumer {
	consumer, err := mq.NewSimpleConsumer(&mq.Config{Endpoint: address, ConsumerGroup: group, Credentials: user},
		mq.WithSimpleAwaitDuration(poll),
		mq.WithSimpleSubscriptionExpressions(map[string]*mq.FilterExpression{topic: mq.NewFilterExpression(tags)}))
	done(err)
	done(consumer.Start())
	for range 2 {
		receive(consumer, 10)
	}
	return consumer
}

// receive returns the messages of one receive; this client reports a receive of nothing as an error.
func receive(consumer mq.SimpleConsumer, seconds int) []*mq.MessageView {
	found, err := consumer.Receive(bg, 16, time.Duration(seconds)*time.Second)
	if err != nil {
		must(strings.Contains(err.Error(), "MESSAGE_NOT_FOUND"), err)
	}
	return found
}

func take(consumer mq.SimpleConsumer, n, seconds int) []*mq.MessageView {
	var found []*mq.MessageView
	for end := time.Now().Add(wait); len(found) < n && time.Now().Before(end); {
		found = append(found, receive(consumer, seconds)...)
	}
	must(len(found) == n, len(found), " messages instead of ", n)
	return found
}

// takeOne receives one message with a body, and acknowledges it.
func takeOne(consumer mq.SimpleConsumer, body string) *mq.MessageView {
	got := take(consumer, 1, 20)[0]
	must(string(got.GetBody()) == body, "another message: ", string(got.GetBody()))
	done(consumer.Ack(bg, got))
	return got
}

// pushing is a push consumer that has received once; it fails for a message the first time, if its body is `fails`.
func pushing(topic, group, fails string) (mq.PushConsumer, chan received) {
	got := make(chan received, 1000)
	consumer, err := mq.NewPushConsumer(&mq.Config{Endpoint: address, ConsumerGroup: group, Credentials: user},
		mq.WithPushSubscriptionExpressions(map[string]*mq.FilterExpression{topic: mq.SUB_ALL}),
		mq.WithPushMessageListener(&mq.FuncMessageListener{Consume: func(one *mq.MessageView) mq.ConsumerResult {
			got <- received{string(one.GetBody()), one.GetDeliveryAttempt(), time.Now()}
			if string(one.GetBody()) == fails && one.GetDeliveryAttempt() == 1 {
				return mq.FAILURE
			}
			return mq.SUCCESS
		}}))
	done(err)
	done(consumer.Start())
	time.Sleep(4 * time.Second)
	return consumer, got
}

func until(got chan received, n int) []received {
	var found []received
	for len(found) < n {
		select {
		case one := <-got:
			found = append(found, one)
		case <-time.After(wait):
			panic(fmt.Sprint(len(found), " messages instead of ", n))
		}
	}
	return found
}

func bodies(all []received) []string {
	var found []string
	for _, one := range all {
		found = append(found, one.body)
	}
	return found
}

func sorted(all []string) []string {
	return slices.Sorted(slices.Values(all))
}

func properties(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	one := message(topic, "hello")
	one.SetTag("red")
	one.SetKeys("k1")
	one.AddProperty("mine", "\u00fc")
	receipt := send(one)
	got := takeOne(consumer, "hello")
	must(*got.GetTag() == "red" && got.GetKeys()[0] == "k1" && got.GetProperties()["mine"] == "\u00fc", got)
	must(got.GetMessageId() == receipt.MessageID, got.GetMessageId())
}

func unknownTopic(topic, _ string) {
	_, err := producer.Send(bg, message(topic+"-nowhere", "x"))
	must(err != nil, "it was sent")
	must(strings.Contains(err.Error(), "TOPIC_NOT_FOUND"), err)
}

func delay(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	due := time.Now().Add(4 * time.Second)
	one := message(topic, "later")
	one.SetDelayTimestamp(due)
	send(one)
	takeOne(consumer, "later")
	must(time.Now().After(due.Add(-100*time.Millisecond)), "it came too soon")
}

func acknowledged(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	send(message(topic, "one"))
	done(consumer.Ack(bg, take(consumer, 1, 10)[0]))
	time.Sleep(11 * time.Second)
	must(len(receive(consumer, 10)) == 0, "it came again")
}

func redelivered(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	send(message(topic, "one"))
	take(consumer, 1, 10)
	began := time.Now()
	again := take(consumer, 1, 10)[0]
	must(string(again.GetBody()) == "one" && again.GetDeliveryAttempt() == 2, "attempt ", again.GetDeliveryAttempt())
	must(time.Since(began) > 5*time.Second, "too soon")
	done(consumer.Ack(bg, again))
}

func invisible(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	send(message(topic, "one"))
	got := take(consumer, 1, 10)[0]
	done(consumer.ChangeInvisibleDuration(got, 30*time.Second))
	time.Sleep(11 * time.Second)
	must(len(receive(consumer, 10)) == 0, "it came again")
	done(consumer.Ack(bg, got))
}

func empty(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	began := time.Now()
	must(len(receive(consumer, 10)) == 0, "a message")
	// This client states no time to wait: a server waits nearly as long as the call may take, which is 5 s more.
	waited := time.Since(began)
	must(waited > poll/2 && waited < poll+6*time.Second, waited)
}

func tags(topic, group string) {
	consumer := simple(topic, group, "a||b")
	defer consumer.GracefulStop()
	for _, tag := range []string{"a", "b", "c"} {
		one := message(topic, tag)
		one.SetTag(tag)
		send(one)
	}
	var found []string
	for _, each := range take(consumer, 2, 20) {
		found = append(found, string(each.GetBody()))
		done(consumer.Ack(bg, each))
	}
	must(slices.Equal(sorted(found), []string{"a", "b"}), found)
}

func push(topic, group string) {
	consumer, got := pushing(topic, group, "")
	defer consumer.GracefulStop()
	all := sendAll(topic, 50)
	must(slices.Equal(sorted(bodies(until(got, 50))), all), "other messages")
	time.Sleep(2 * time.Second)
	must(len(got) == 0, len(got), " came again")
}

func retried(topic, group string) {
	consumer, got := pushing(topic, group, "fails")
	defer consumer.GracefulStop()
	send(message(topic, "fails"))
	two := until(got, 2)
	must(two[0].attempt == 1 && two[1].attempt == 2, two)
	waited := two[1].at.Sub(two[0].at)
	must(waited > 9*time.Second && waited < retry, waited)
}

func shared(topic, group string) {
	one, first := pushing(topic, group, "")
	defer one.GracefulStop()
	two, second := pushing(topic, group, "")
	defer two.GracefulStop()
	all := sendAll(topic, 200)
	for end := time.Now().Add(wait); len(first)+len(second) < 200 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	must(len(first) > 0 && len(second) > 0, len(first), " and ", len(second), " messages")
	got := append(bodies(until(first, len(first))), bodies(until(second, len(second)))...)
	must(slices.Equal(sorted(got), all), len(got), " messages")
}

func fifo(topic, group string) {
	consumer, got := pushing(topic, group, "")
	defer consumer.GracefulStop()
	for n := range 20 {
		one := message(topic, fmt.Sprintf("%02d", n))
		one.SetMessageGroup(fmt.Sprint("group-", n%2))
		send(one)
	}
	var of [2][]string
	for _, body := range bodies(until(got, 20)) {
		n, _ := strconv.Atoi(body)
		of[n%2] = append(of[n%2], body)
	}
	must(slices.IsSorted(of[0]) && slices.IsSorted(of[1]), of)
}

// checking is a producer of transactions, which answers checks in this way.
func checking(topic string, commits bool) (mq.Producer, chan string) {
	asked := make(chan string, 100)
	sender, err := mq.NewProducer(&mq.Config{Endpoint: address, Credentials: user}, mq.WithTopics(topic),
		mq.WithTransactionChecker(&mq.TransactionChecker{Check: func(half *mq.MessageView) mq.TransactionResolution {
			asked <- string(half.GetBody())
			return resolutionsFor[commits]
		}}))
	done(err)
	done(sender.Start())
	return sender, asked
}

func begun(sender mq.Producer, topic, body string) mq.Transaction {
	transaction := sender.BeginTransaction()
	_, err := sender.SendWithTransaction(bg, message(topic, body), transaction)
	done(err)
	return transaction
}

func transactions(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	sender, _ := checking(topic, true)
	defer sender.GracefulStop()
	done(begun(sender, topic, "no").RollBack())
	transaction := begun(sender, topic, "yes")
	must(len(receive(consumer, 10)) == 0, "a half message came")
	done(transaction.Commit())
	takeOne(consumer, "yes")
}

func orphans(topic, group string) {
	consumer := simple(topic, group, "*")
	defer consumer.GracefulStop()
	// In another process: this client keeps the connections of a producer that is stopped, and goes on to answer checks.
	done(exec.Command(os.Args[0], address, topic, "--begin").Run())
	other, asked := checking(topic, true)
	defer other.GracefulStop()
	takeOne(consumer, "orphan")
	must(<-asked == "orphan", "another message was checked")
}

var features = []feature{
	{"send, and properties", "NORMAL", properties},
	{"unknown topic refused", "NORMAL", unknownTopic},
	{"delay", "DELAY", delay},
	{"simple: acknowledged once", "NORMAL", acknowledged},
	{"simple: redelivered", "NORMAL", redelivered},
	{"simple: longer invisible", "NORMAL", invisible},
	{"simple: empty receive", "NORMAL", empty},
	{"tags", "NORMAL", tags},
	{"push", "NORMAL", push},
	{"push: retry", "NORMAL", retried},
	{"push: two members share", "NORMAL", shared},
	{"push: FIFO in order", "FIFO", fifo},
	{"transaction: commit, rollback", "TRANSACTION", transactions},
	{"transaction: checked elsewhere", "TRANSACTION", orphans},
}

// outcomeOf runs a feature; it is "ok", or what was wrong.
func outcomeOf(run func()) (outcome string) {
	defer func() {
		if wrong := recover(); wrong != nil {
			outcome = strings.Join(strings.Fields(fmt.Sprint(wrong)), " ")
		}
	}()
	run()
	return "ok"
}

func main() {
	address = os.Args[1]
	prefix, more := os.Args[2], os.Args[3:]
	topicOf := func(n int) string { return prefix + "-" + strconv.Itoa(n) }
	if len(more) > 0 && more[0] == "--user" {
		fmt.Println(outcomeOf(func() { act(prefix, more[1:]) }))
		return
	}
	if slices.Equal(more, []string{"--begin"}) {
		sender, _ := checking(prefix, false)
		begun(sender, prefix, "orphan")
		return
	}
	if slices.Equal(more, []string{"--list"}) {
		for n, each := range features {
			fmt.Printf("%s\t%s\n", topicOf(n), each.kind)
		}
		return
	}
	if len(more) >= 2 {
		pollS, _ := strconv.Atoi(more[0])
		retryS, _ := strconv.Atoi(more[1])
		poll, retry, more = time.Duration(pollS)*time.Second, time.Duration(retryS)*time.Second, more[2:]
	}
	// Without a topic the start of a producer lasts for ever, and one without a checker must not have topics with checks.
	var topics []string
	for n, each := range features {
		if each.kind != "TRANSACTION" {
			topics = append(topics, topicOf(n))
		}
	}
	start(topics...)
	for n, each := range features {
		if len(more) == 0 || slices.Contains(more, each.name) {
			outcome := outcomeOf(func() { each.run(topicOf(n), topicOf(n)+"-g") })
			fmt.Printf("feature\t%s\t%s\n", each.name, outcome[:min(170, len(outcome))])
		}
	}
}
