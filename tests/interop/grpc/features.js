// The features of RocketMQ's gRPC client for Node.js, one after another:
//
//     node features.js ADDRESS PREFIX [POLL_S RETRY_S [FEATURE ...]]
//
// Each uses the topic `PREFIX-number` and the group `PREFIX-number-g`, which exist already. A simple consumer lets a
// receive wait POLL_S seconds, and a failed message has to come again within RETRY_S seconds. Named
// features are run alone.
'use strict';

const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');

const TransactionResolution = { COMMIT: 1, ROLLBACK: 2 }; // the client does not export it

const [address, prefix, ...more] = process.argv.slice(2);
const [pollMs, retryMs] = (more.length >= 2 ? more.slice(0, 2) : [2, 16]).map(seconds => seconds * 1000);
const WAIT_MS = 40_000;
const all = new FilterExpression('*');

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

function check(condition, text) {
  if (!condition) throw new Error(text);
}

/** A simple consumer that has received once: its group is at the end of each queue. */
async function simple(topic, group, filter = all) {
  const consumer = new SimpleConsumer({
    endpoints: address, namespace: '', consumerGroup: group, subscriptions: new Map([[topic, filter]]), awaitDuration: pollMs,
  });
  await consumer.startup();
  for (let n = 0; n < 4; n++) await consumer.receive(1, 10_000);
  return consumer;
}

/** Receives so many messages. */
async function take(consumer, n, invisible = 20_000) {
  const found = [];
  const end = Date.now() + WAIT_MS;
  while (found.length < n && Date.now() < end) found.push(...await consumer.receive(16, invisible));
  check(found.length === n, `${found.length} messages instead of ${n}`);
  return found;
}

/** A push consumer that has received once, and what it gets; it fails for the bodies of `fails` the first time. */
async function push(topic, group, ...fails) {
  const got = [];
  const consumer = new PushConsumer({
    endpoints: address,
    namespace: '',
    consumerGroup: group,
    subscriptions: new Map([[topic, all]]),
    messageListener: {
      async consume(message) {
        const body = message.body.toString();
        got.push([body, message.deliveryAttempt, Date.now()]);
        const failing = fails.indexOf(body);
        if (failing < 0) return ConsumeResult.SUCCESS;
        fails.splice(failing, 1);
        return ConsumeResult.FAILURE;
      },
    },
  });
  await consumer.startup();
  await pause(4000);
  return [consumer, got];
}

async function until(condition, text) {
  const end = Date.now() + WAIT_MS;
  while (!condition() && Date.now() < end) await pause(50);
  check(condition(), text());
}

/** A producer that answers checks of its topic, and keeps the bodies that it was asked about. */
async function transactional(topic, resolution, asked) {
  const sender = new Producer({
    endpoints: address,
    namespace: '',
    topics: [topic],
    checker: {
      async check(half) {
        asked.push(half.body.toString());
        return resolution;
      },
    },
  });
  await sender.startup();
  return sender;
}

/** A transaction whose half message is sent. */
async function begun(sender, topic, body) {
  const transaction = sender.beginTransaction();
  await sender.send({ topic, body: Buffer.from(body) }, transaction);
  return transaction;
}

const FEATURES = [
  ['send, and properties', 'NORMAL', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    const receipt = await producer.send({
      topic, body: Buffer.from('hello'), tag: 'red', keys: ['k1'], properties: new Map([['mine', '\xfc']]),
    });
    const [got] = await take(consumer, 1);
    check(got.body.toString() === 'hello' && got.tag === 'red' && got.keys[0] === 'k1', JSON.stringify(got));
    check(got.properties.get('mine') === '\xfc' && got.messageId === receipt.messageId, JSON.stringify([...got.properties]));
    await consumer.ack(got);
    await consumer.shutdown();
  }],
  ['unknown topic refused', 'NORMAL', async (producer, topic) => {
    const refused = await producer.send({ topic: `${topic}-nowhere`, body: Buffer.from('x') }).then(() => '', error => String(error));
    check(refused.includes('40402'), refused || 'it was sent');
  }],
  ['delay', 'DELAY', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    const due = Date.now() + 4000;
    await producer.send({ topic, body: Buffer.from('later'), deliveryTimestamp: new Date(due) });
    const [got] = await take(consumer, 1);
    check(Date.now() >= due - 100, 'it came too soon');
    await consumer.ack(got);
    await consumer.shutdown();
  }],
  ['recall', 'DELAY', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    const due = new Date(Date.now() + 4000);
    const [recalled] = await Promise.all(['recalled', 'other'].map(
      body => producer.send({ topic, body: Buffer.from(body), deliveryTimestamp: due })));
    const receipt = await producer.recallMessage(topic, recalled.recallHandle);
    check(receipt.messageId === recalled.messageId, JSON.stringify(receipt));
    const [got] = await take(consumer, 1);
    check(got.body.toString() === 'other', got.body.toString());
    await consumer.ack(got);
    check((await consumer.receive(16, 10_000)).length === 0, 'the recalled message came');
    await consumer.shutdown();
  }],
  ['simple: acknowledged once', 'NORMAL', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    await producer.send({ topic, body: Buffer.from('one') });
    const [got] = await take(consumer, 1, 10_000);
    await consumer.ack(got);
    await pause(11_000);
    check((await consumer.receive(16, 10_000)).length === 0, 'it came again');
    await consumer.shutdown();
  }],
  ['simple: redelivered', 'NORMAL', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    await producer.send({ topic, body: Buffer.from('one') });
    await take(consumer, 1, 10_000);
    const [again] = await take(consumer, 1, 10_000);
    check(again.deliveryAttempt === 2, String(again.deliveryAttempt));
    await consumer.ack(again);
    await consumer.shutdown();
  }],
  ['simple: longer invisible', 'NORMAL', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    await producer.send({ topic, body: Buffer.from('one') });
    const [got] = await take(consumer, 1, 10_000);
    await consumer.changeInvisibleDuration(got, 30_000);
    await pause(11_000);
    check((await consumer.receive(16, 10_000)).length === 0, 'it came again');
    await consumer.ack(got);
    await consumer.shutdown();
  }],
  ['simple: empty receive', 'NORMAL', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    const began = Date.now();
    check((await consumer.receive(16, 10_000)).length === 0, 'a message came');
    check(Date.now() - began < pollMs + 4000, `${Date.now() - began} ms`);
    await consumer.shutdown();
  }],
  ['tags', 'NORMAL', async (producer, topic, group) => {
    const consumer = await simple(topic, group, new FilterExpression('a||b'));
    for (const tag of 'abc') await producer.send({ topic, body: Buffer.from(tag), tag });
    const got = await take(consumer, 2);
    check(got.map(each => each.body.toString()).sort().join() === 'a,b', 'other messages came');
    for (const each of got) await consumer.ack(each);
    await consumer.shutdown();
  }],
  ['push', 'NORMAL', async (producer, topic, group) => {
    const [consumer, got] = await push(topic, group);
    for (let n = 0; n < 50; n++) await producer.send({ topic, body: Buffer.from(String(n)) });
    await until(() => got.length >= 50, () => `${got.length} messages instead of 50`);
    await pause(2000);
    check(got.length === 50 && new Set(got.map(each => each[0])).size === 50, `${got.length} messages`);
    await consumer.shutdown();
  }],
  ['push: retry', 'NORMAL', async (producer, topic, group) => {
    const [consumer, got] = await push(topic, group, 'fails');
    await producer.send({ topic, body: Buffer.from('fails') });
    await until(() => got.length >= 2, () => `${got.length} messages instead of 2`);
    const passed = got[1][2] - got[0][2];
    check(got[1][1] === 2 && passed < retryMs, JSON.stringify(got));
    await consumer.shutdown();
  }],
  ['push: two members share', 'NORMAL', async (producer, topic, group) => {
    const [one, first] = await push(topic, group);
    const [two, second] = await push(topic, group);
    for (let n = 0; n < 200; n++) await producer.send({ topic, body: Buffer.from(String(n)) });
    await until(() => first.length + second.length >= 200, () => `${first.length} and ${second.length} messages`);
    check(new Set([...first, ...second].map(each => each[0])).size === 200, 'some came twice');
    check(first.length > 0 && second.length > 0, `${first.length} and ${second.length} messages`);
    await one.shutdown();
    await two.shutdown();
  }],
  ['push: FIFO in order', 'FIFO', async (producer, topic, group) => {
    const [consumer, got] = await push(topic, group);
    for (let n = 0; n < 20; n++) await producer.send({ topic, body: Buffer.from(String(n)), messageGroup: `group-${n % 2}` });
    await until(() => got.length >= 20, () => `${got.length} messages instead of 20`);
    for (const group of [0, 1]) {
      const mine = got.map(each => Number(each[0])).filter(n => n % 2 === group);
      check(mine.every((n, at) => at === 0 || mine[at - 1] < n), mine.join());
    }
    await consumer.shutdown();
  }],
  ['transaction: commit, rollback', 'TRANSACTION', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    const sender = await transactional(topic, TransactionResolution.COMMIT, []);
    await (await begun(sender, topic, 'no')).rollback();
    const transaction = await begun(sender, topic, 'yes');
    check((await consumer.receive(16, 10_000)).length === 0, 'a half message came');
    await transaction.commit();
    const [got] = await take(consumer, 1);
    check(got.body.toString() === 'yes', got.body.toString());
    await consumer.ack(got);
    await consumer.shutdown();
    await sender.shutdown();
  }],
  ['transaction: checked elsewhere', 'TRANSACTION', async (producer, topic, group) => {
    const consumer = await simple(topic, group);
    const gone = await transactional(topic, TransactionResolution.ROLLBACK, []);
    await begun(gone, topic, 'orphan');
    await gone.shutdown();
    const asked = [];
    const other = await transactional(topic, TransactionResolution.COMMIT, asked);
    const [got] = await take(consumer, 1);
    check(got.body.toString() === 'orphan' && asked.join() === 'orphan', `${got.body} ${asked}`);
    await consumer.ack(got);
    await consumer.shutdown();
    await other.shutdown();
  }],
];

async function main() {
  if (more[0] === '--list') {
    FEATURES.forEach(([, kind], number) => process.stdout.write(`${prefix}-${number}\t${kind}\n`));
    return;
  }
  const producer = new Producer({ endpoints: address, namespace: '' });
  await producer.startup();
  for (const [number, [name, , run]] of FEATURES.entries()) {
    if (more.length > 2 && !more.slice(2).includes(name)) continue;
    const topic = `${prefix}-${number}`;
    const outcome = await run(producer, topic, `${topic}-g`).then(() => 'ok', error => String(error).slice(0, 150).replace(/\s+/g, ' '));
    process.stdout.write(`feature\t${name}\t${outcome}\n`);
  }
  await producer.shutdown();
  process.exit(0);
}

main();
