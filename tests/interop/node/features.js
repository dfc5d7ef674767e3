// Runs features of the Node.js client with its default settings, and prints a line "feature NAME OUTCOME" for each.
// biome-ignore lint/suspicious/noRedundantUseStrict: Node.js runs it as a script of CommonJS, not as a module
'use strict';

const { Producer, Consumer, Message } = require('ali-ons');
const utils = require('ali-ons/lib/utils');
const RemotingCommand = require('ali-ons/lib/protocol/command/remoting_command');

const nameSrv = process.argv[2];
const run = (Date.now() % 100000000).toString(36);
const httpclient = {}; // it asks no such server here
const logger = { info() {}, warn() {}, error() {}, debug() {} };
let producer;

function must(condition, wrong) {
  if (!condition) {
    throw new Error(wrong);
  }
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

const UPDATE_AND_CREATE_TOPIC = 17;

// What the client would send: its own call for this is commented out.
async function createTopic(topic) {
  const client = producer._mqClient;
  const route = await client.getTopicRouteInfoFromNameServer('TBW102', 3000);
  const header = { topic, defaultTopic: 'TBW102', readQueueNums: 4, writeQueueNums: 4, perm: 6, topicSysFlag: 0 };
  const command = RemotingCommand.createRequestCommand(UPDATE_AND_CREATE_TOPIC, { ...header, topicFilterType: 'SINGLE_TAG', order: false });
  const answer = await client.invoke(route.brokerDatas[0].brokerAddrs['0'], command, 3000);
  must(answer.code === 0, 'topic: ' + answer.remark);
  await sleep(1000);
}

// The consumer has its queues before `send` is called: this client begins at the end of a queue. It creates no topic by
// sending to it.
async function receive(topic, n, send, { tags = '*', listener = async () => {}, create = true, ...options } = {}) {
  if (create) {
    await createTopic(topic);
  }
  const got = [];
  const consumer = new Consumer({ nameSrv, httpclient, consumerGroup: 'g-' + topic.replace(/%/g, ''), logger, ...options });
  consumer.on('error', () => {});
  consumer.subscribe(topic, tags, async message => {
    got.push(message);
    return await listener(message);
  });
  await consumer.ready();
  await sleep(12000);
  await send();
  for (const until = Date.now() + 60000; got.length < n && Date.now() < until;) {
    await sleep(50);
  }
  await sleep(300);
  await consumer.close();
  must(got.length === n, got.length + ' of ' + n + ' came');
  return got;
}

const features = {
  async 'send, and properties'(topic) {
    const message = new Message(topic, 'red', 'hello');
    message.keys = [ 'k1' ];
    message.properties.colour = 'grün';
    const [ got ] = await receive(topic, 1, () => producer.send(message));
    must(got.body.toString() === 'hello' && got.tags === 'red' && got.keys === 'k1', 'body, tag or key');
    must(got.properties.colour === 'grün', 'property');
  },
  async 'delay level'(topic) {
    const message = new Message(topic, 'later');
    message.body = Buffer.from('later');
    message.delayTimeLevel = 2;
    const [ got ] = await receive(topic, 1, () => producer.send(message));
    const waited = got.storeTimestamp - got.bornTimestamp;
    must(waited >= 4900 && waited < 7000, 'stored after ' + waited + ' ms');
  },
  async 'body of 4 MiB, compressed'(topic) {
    const body = 'x'.repeat(4 * 1024 * 1024);
    const [ got ] = await receive(topic, 1, () => producer.send(new Message(topic, 'large', body)));
    must(got.body.toString() === body, 'body');
  },
  async tags(topic) {
    const got = await receive(topic, 3, async () => {
      for (const tag of [ 'a', 'b', 'c', 'a' ]) {
        await producer.send(new Message(topic, tag, tag));
      }
    }, { tags: 'a || c' });
    must(got.every(message => message.tags !== 'b'), 'an unwanted tag');
  },
  async retry(topic) {
    let times = 0;
    const listener = async () => {
      if (!times++) {
        return Consumer.ACTION_RETRY;
      }
    };
    const got = await receive(topic, 2, () => producer.send(new Message(topic, 'r', 'again')), { listener });
    must(got[1].reconsumeTimes === 1, 'deliveries ' + got[1].reconsumeTimes);
  },
  async 'consume from first'(topic) {
    await createTopic(topic);
    await producer.send(new Message(topic, 'b', 'before'));
    await receive(topic, 2, () => producer.send(new Message(topic, 'a', 'after')), { consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  },
  async 'consume from last'(topic) {
    await createTopic(topic);
    await producer.send(new Message(topic, 'b', 'before'));
    await receive(topic, 1, () => producer.send(new Message(topic, 'a', 'after')));
  },
  async 'consume from time'(topic) {
    await createTopic(topic);
    await producer.send(new Message(topic, 'b', 'before'));
    await sleep(1500); // the option has whole seconds
    const consumeTimestamp = utils.timeMillisToHumanString(Date.now());
    await receive(topic, 1, () => producer.send(new Message(topic, 'a', 'after')), { consumeFromWhere: 'CONSUME_FROM_TIMESTAMP', consumeTimestamp });
  },
  async 'dead letter'(topic) {
    const listener = async () => Consumer.ACTION_RETRY;
    await receive(topic, 1, () => producer.send(new Message(topic, 'd', 'never')), { listener, maxReconsumeTimes: 0 });
    const options = { consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', create: false };
    const [ dead ] = await receive('%DLQ%g-' + topic, 1, () => {}, options);
    must(dead.body.toString() === 'never', 'body');
  },
  async broadcasting(topic) {
    await receive(topic, 1, () => producer.send(new Message(topic, 'b', 'to all')), { isBroadcast: true });
  },
};

// Prints a line for each message of a topic until this process is killed.
async function consume(consumerGroup, topic) {
  const consumer = new Consumer({ nameSrv, httpclient, consumerGroup, logger });
  consumer.on('error', () => {});
  consumer.subscribe(topic, '*', async message => console.log('m ' + message.body));
  await consumer.ready();
}

(async () => {
  if (process.argv[3] === 'consume') {
    return await consume(process.argv[4], process.argv[5]);
  }
  producer = new Producer({ nameSrv, httpclient, producerGroup: 'interop-node', logger, maxMessageSize: 5 * 1024 * 1024 });
  producer.on('error', () => {});
  await producer.ready();
  for (const [ name, feature ] of Object.entries(features).filter(([ name ]) => name.includes(process.argv[3] || ''))) {
    let outcome = 'ok';
    try {
      await feature(name.replace(/[^a-z]+/g, '-') + '-' + run);
    } catch (error) {
      outcome = String(error).replace(/\s+/g, ' ').slice(0, 300);
    }
    console.log(`feature\t${name}\t${outcome}`);
  }
  process.exit(0);
})();
