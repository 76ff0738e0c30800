// Drives kafkajs for the tests: lines of JSON on stdin, one answer for each on stdout (tests/support/clients/driven.py).
const readline = require('readline')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async data => lz4.decompressFrame(data),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async data => Buffer.from(zstd.decompress(data)),
})

const text = data => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))
const bytes = data => (data === null ? null : Buffer.from(data, 'base64'))

class Connection {
  constructor({ bootstrap, patience, largest }) {
    this.largest = largest
    const retry = { initialRetryTime: 50, maxRetryTime: 500, retries: Math.ceil(patience * 2) }
    this.kafka = new Kafka({ brokers: [bootstrap], clientId: 'test', logLevel: logLevel.NOTHING, retry })
    this.open = []
  }

  async lasting(name, make) {
    if (!this[name]) {
      const one = make()
      await one.connect()
      this[name] = one
      this.open.push(one)
    }
    return this[name]
  }

  async write({ topic, partition, codec, records, idempotent = false }) {
    const producer = await this.lasting(`producer${idempotent}`, () => this.kafka.producer({ idempotent }))
    const [answer] = await producer.send({
      topic,
      compression: CODECS[codec],
      messages: records.map(([, timestamp, key, value, headers]) => ({
        partition,
        timestamp: String(timestamp),
        key: bytes(key),
        value: bytes(value),
        headers: Object.fromEntries(headers.map(([name, data]) => [name, bytes(data)])),
      })),
    })
    return answer
  }

  // kafkajs reads for members of groups only; below that is the cluster object that its consumers use
  async read({ topic, partition, since }) {
    const create = Object.getOwnPropertySymbols(this.kafka).find(one => one.description.includes('createCluster'))
    const cluster = await this.lasting('cluster', () => this.kafka[create]({ allowAutoTopicCreation: false }))
    await cluster.addTargetTopic(topic)
    await cluster.refreshMetadata()
    const at = async time => {
      const asked = [{ topic, partitions: [{ partition }], ...time }]
      return BigInt((await cluster.fetchTopicsOffset(asked))[0].partitions[0].offset)
    }
    const end = await at({ fromBeginning: false })
    let offset = await at(since === null ? { fromBeginning: true } : { fromTimestamp: since })
    if (offset < 0n) offset = end
    const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))
    const broker = await cluster.findBroker({ nodeId })
    const found = []
    while (offset < end) {
      const wanted = { partition, fetchOffset: offset.toString(), maxBytes: this.largest }
      const { responses } = await broker.fetch({ maxWaitTime: 10, topics: [{ topic, partitions: [wanted] }] })
      for (const one of responses[0].partitions[0].messages) {
        if (BigInt(one.offset) < offset) continue
        const headers = Object.entries(one.headers).map(([name, data]) => [name, text(data)])
        found.push([Number(one.offset), Number(one.timestamp), text(one.key), text(one.value), headers])
        offset = BigInt(one.offset) + 1n
      }
    }
    return found
  }

  async transact({ id, step, topic, partition, value, group, offset }) {
    const make = () => this.kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1 })
    const producer = await this.lasting(`transactional-${id}`, make)
    if (step === 'begin') this.transaction = await producer.transaction()
    else if (step === 'send') await this.transaction.send({ topic, messages: [{ partition, value }] })
    else if (step === 'commit') await this.transaction.commit()
    else if (step === 'abort') await this.transaction.abort()
    else {
      const topics = [{ topic, partitions: [{ partition, offset: String(offset) }] }]
      await this.transaction.sendOffsets({ consumerGroupId: group, topics })
    }
  }

  async admin({ call, argument }) {
    const admin = await this.lasting('administrator', () => this.kafka.admin())
    return admin[call](...argument)
  }

  async close() {
    for (const one of this.open) await one.disconnect()
  }
}

const connections = []

async function act(line) {
  const { do: what, to, ...rest } = JSON.parse(line)
  if (what === 'connect') return connections.push(new Connection(rest)) - 1
  return (await connections[to][what](rest)) ?? null
}

async function main() {
  await zstd.init()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer
    try {
      answer = { ok: await act(line) }
    } catch (error) {
      const cause = error.code === undefined && error.cause ? error.cause : error
      answer = { error: `${error.name}: ${error.message}`, code: typeof cause.code === 'number' ? cause.code : null }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
}

main()
