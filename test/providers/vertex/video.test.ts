import { openPool } from '../../../shared/io/http.ts'
import { vertex as protocol } from '../../../shared/providers/adapters/vertex/protocol.ts'
import { openConnection } from '../../../shared/providers/open-connection.ts'
import { startVertex } from '../../emulators/vertex.ts'
import { callOf } from '../../support/jobs/queued-adapter.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const vertex = use(test, () => startVertex({ project: 'p', acceptsToken: token => token === 'good' }))
const adapter = protocol.queued!.video!

function connect() {
  const timeouts = { connectTimeoutMs: 2_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000, totalTimeoutMs: 10_000 }
  const prefix = '/v1beta1/projects/p/locations/us-central1'
  const call = videoCall()
  return openConnection({
    provider: call.target.provider,
    protocol,
    pool: openPool(vertex.url, timeouts, 4),
    baseUrl: vertex.url + prefix,
    prefix,
    timeouts,
    authorize: async () => ({ authorization: 'Bearer good' }),
  })
}

function videoCall() {
  return callOf<'video'>('vertex', 'veo-3.1', {
    mode: 'text',
    prompt: 'A film of a lighthouse',
    seconds: 8,
    resolution: '720p',
    aspectRatio: '16:9',
    audio: null,
    negativePrompt: null,
    seed: null,
  } as never)
}

test('a video with sound, whose bytes the last poll has', async t => {
  const connection = connect()
  const operation = await adapter.start(videoCall(), connection, null)
  t.like(await adapter.check(operation, connection), { status: 'pending' })
  const report = await adapter.check(operation, connection)
  if (report.status !== 'completed') return t.fail(report.status)
  const [file] = report.output.files
  t.is('bytes' in file! && Buffer.from(file.bytes).toString(), 'a video')
  const [start, poll] = vertex.requests
  const model = '/v1beta1/projects/p/locations/us-central1/publishers/google/models/veo-3.1-generate-001'
  t.is(start!.path, `${model}:predictLongRunning`)
  t.is(start!.body.parameters.generateAudio, true)
  t.is(poll!.path, `${model}:fetchPredictOperation`)
})
