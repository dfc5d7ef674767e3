// A user of servers with access control, as a gRPC client for Node.js:
//
//     node users.js ADDRESS TOPIC POLL_S NAME SECRET ACT...
//
// ACT is `send` or `receive`, or both. It prints "ok", or what the client reports. The group is `TOPIC-g`.
'use strict';

const { FilterExpression, Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [endpoints, topic, pollS, accessKey, accessSecret, ...acts] = process.argv.slice(2);
const client = { endpoints, namespace: '', sessionCredentials: { accessKey, accessSecret } };
const WAIT_MS = 40_000;

/** A simple consumer that has received twice: its group is at the end of each queue. */
async function receiving() {
  const subscriptions = new Map([[topic, new FilterExpression('*')]]);
  const consumer = new SimpleConsumer({ ...client, consumerGroup: `${topic}-g`, subscriptions, awaitDuration: pollS * 1000 });
  await consumer.startup();
  for (let n = 0; n < 2; n++) await consumer.receive(1, 10_000);
  return consumer;
}

async function act() {
  const consumer = acts.includes('receive') ? await receiving() : null;
  if (acts.includes('send')) {
    const producer = new Producer({ ...client, topics: [topic] });
    await producer.startup();
    await producer.send({ topic, body: Buffer.from('hello') });
  }
  if (acts.length < 2) return;
  const found = [];
  for (const end = Date.now() + WAIT_MS; found.length === 0 && Date.now() < end;) found.push(...await consumer.receive(16, 20_000));
  if (found.length === 0) throw new Error('the message did not come');
  await consumer.ack(found[0]);
}

act().then(() => 'ok', String).then(outcome => {
  process.stdout.write(`${outcome.replace(/\s+/g, ' ')}\n`);
  process.exit(0);
});
