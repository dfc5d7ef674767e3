package main

import (
	"io"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// listener is a local branch that ends so, or dies, and what it says when it is asked.
type listener struct {
	dies           bool
	local, checked primitive.LocalTransactionState
	checks         chan *primitive.MessageExt
}

func (l *listener) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	if l.dies {
		os.Exit(9)
	}
	return l.local
}

func (l *listener) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	l.checks <- message
	return l.checked
}

func producerOf(group string, l *listener) rocketmq.TransactionProducer {
	l.checks = make(chan *primitive.MessageExt, 10000)
	// Producers of one process with one instance name are one client.
	made, err := rocketmq.NewTransactionProducer(l, producer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
		producer.WithGroupName(group), producer.WithInstanceName(group))
	done(err)
	done(made.Start())
	return made
}

// transactionsOf is a program: "begin", which dies in its local branch, or "answer", which says commit to every check.
func transactionsOf(kind, group, topic string) {
	made := producerOf(group, &listener{dies: kind == "begin", checked: primitive.CommitMessageState})
	if kind == "begin" {
		_, err := made.SendMessageInTransaction(bg, primitive.NewMessage(topic, []byte("half")))
		done(err)
	} else {
		// A producer sends heartbeats only to the brokers of topics that it has sent to.
		_, err := made.SendMessageInTransaction(bg, primitive.NewMessage(topic+"-other", []byte("plain")))
		done(err)
	}
	io.Copy(io.Discard, os.Stdin)
}

var states = []primitive.LocalTransactionState{primitive.RollbackMessageState, primitive.CommitMessageState}

func ended() {
	for n, state := range states {
		made := producerOf("go-ended-"+string(rune('0'+n)), &listener{local: state})
		sent, err := made.SendMessageInTransaction(bg, primitive.NewMessage(topic("ended"), []byte{byte('0' + n)}))
		done(err)
		must(sent.State == state, sent.String())
		time.Sleep(300 * time.Millisecond)
		done(made.Shutdown())
	}
	must(string(receive(topic("ended"), "*", 1, nil)[0].Body) == "1", "the wrong one came")
}

func checked() {
	for n, state := range states {
		l := &listener{local: primitive.UnknowState, checked: state}
		made := producerOf("go-checked-"+string(rune('0'+n)), l)
		message := primitive.NewMessage(topic("checked"), []byte{byte('0' + n)}).WithTag("red")
		message.WithProperty("colour", "grün")
		_, err := made.SendMessageInTransaction(bg, message)
		done(err)
		select {
		case asked := <-l.checks:
			must(asked.Topic == topic("checked") && asked.GetTags() == "red" && asked.GetProperty("colour") == "grün", asked.String())
		case <-time.After(60 * time.Second):
			panic("no check came")
		}
		time.Sleep(300 * time.Millisecond)
		done(made.Shutdown())
	}
	must(string(receive(topic("checked"), "*", 1, nil)[0].Body) == "1", "the wrong one came")
}
