// A user of servers with access control: `features ADDRESS TOPIC --user POLL_S NAME SECRET ACT...`, where ACT is `send`
// or `receive`, or both. It prints "ok", or what the client reports. The group is `TOPIC-g`.
package main

import (
	"slices"
	"strconv"
	"time"

	mq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// act does the acts of a user on a topic; with both of them its message has to arrive.
func act(topic string, arguments []string) {
	pollS, err := strconv.Atoi(arguments[0])
	done(err)
	poll = time.Duration(pollS) * time.Second
	user = &credentials.SessionCredentials{AccessKey: arguments[1], AccessSecret: arguments[2]}
	acts := arguments[3:]
	var consumer mq.SimpleConsumer
	if slices.Contains(acts, "receive") {
		consumer = simple(topic, topic+"-g", "*")
	}
	if slices.Contains(acts, "send") {
		start(topic)
		send(message(topic, "hello"))
	}
	if len(acts) == 2 {
		takeOne(consumer, "hello")
	}
}
