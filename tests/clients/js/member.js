// One member of a group with kafkajs; the same as tests/clients/members/member.py, which says more.
const { Kafka, logLevel } = require('kafkajs')

const [, , bootstrap, groupId, topic] = process.argv
const say = what => process.stdout.write(JSON.stringify(what) + '\n')

async function main() {
  const retry = { initialRetryTime: 50, maxRetryTime: 500, retries: 100 }
  const kafka = new Kafka({ brokers: [bootstrap], clientId: 'member', logLevel: logLevel.NOTHING, retry })
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: 3000,
    heartbeatInterval: 300,
    rebalanceTimeout: 10000,
    maxWaitTimeInMs: 10,
    retry,
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    say({ owns: (payload.memberAssignment[topic] || []).slice().sort((a, b) => a - b) })
  })
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      say({ read: [partition, Number(message.offset), message.value.toString()] })
      const offset = String(BigInt(message.offset) + 1n)
      try {
        await consumer.commitOffsets([{ topic, partition, offset }])
      } catch (error) {
        say({ refused: error.type || error.name })
      }
    },
  })
}

main()
