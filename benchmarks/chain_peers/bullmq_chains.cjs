// BullMQ on Redis: one Node process as the worker. A chain is a flow whose jobs are nested, and a group is a flow whose
// last job is the parent of all others. Each job reads the values of its children, as the other queues pass results on.

const fs = require('node:fs')
const { FlowProducer, Worker } = require('bullmq')

const TIMEOUT_MS = 600_000
const PAUSE_MS = 5
const QUEUE = 'bench'
const OPTIONS = { removeOnComplete: true }
const links = Number(process.env.CHAINS_LINKS || 10)
const file = process.env.CHAINS_FILE
const address = new URL(process.env.CHAINS_URL)
const connection = {
  host: address.hostname, port: Number(address.port), password: address.password || undefined, maxRetriesPerRequest: null,
}

const done = (right) => fs.appendFileSync(file, right ? '.' : '!')
const sum = (values) => Object.values(values).reduce((total, value) => total + value, 0)

async function run(job) {
  const values = job.data.x === undefined ? sum(await job.getChildrenValues()) : job.data.x
  if (job.name === 'link') return values + 1
  done(values === job.data.wanted)
  return values
}

function chain() {
  let job = { name: 'link', queueName: QUEUE, data: { x: 0 }, opts: OPTIONS }
  for (let n = 0; n < links - 2; n++) job = { name: 'link', queueName: QUEUE, data: {}, opts: OPTIONS, children: [job] }
  return { name: 'last', queueName: QUEUE, data: { wanted: links - 1 }, opts: OPTIONS, children: [job] }
}

function group(count) {
  const children = Array.from({ length: count }, (_, x) => ({ name: 'link', queueName: QUEUE, data: { x }, opts: OPTIONS }))
  const wanted = (count * (count - 1)) / 2 + count
  return { name: 'total', queueName: QUEUE, data: { wanted }, opts: OPTIONS, children }
}

async function measure(what, count) {
  const flows = new FlowProducer({ connection })
  await flows.waitUntilReady()
  const began = performance.now()
  if (what === 'chain') for (let n = 0; n < count; n++) await flows.add(chain())
  else await flows.add(group(count))
  const enqueued = performance.now() - began
  const wanted = what === 'chain' ? count : 1
  const marks = () => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '')
  while (marks().length < wanted && performance.now() - began < TIMEOUT_MS) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  const seconds = (performance.now() - began) / 1000
  console.log(JSON.stringify({ seconds, enqueue: enqueued / 1000, ok: marks() === '.'.repeat(wanted) }))
  await flows.close()
}

const [what, count] = process.argv.slice(2)
if (what === 'work') new Worker(QUEUE, run, { connection, concurrency: 100 })
else measure(what, Number(count))
