// Requests whose files take time: a key that has just been read is read again before anything is reserved.
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { textureFile } from '../../shared/providers/sandbox/media/mesh-files.ts'
import { Emulator } from '../emulators/emulator.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let fetched = Promise.withResolvers<void>()
let revoked = Promise.withResolvers<void>()
const files = use(test, () =>
  Emulator.start(async (_request, response) => {
    fetched.resolve()
    await revoked.promise
    response.writeHead(200, { 'content-type': 'image/png' }).end(textureFile())
  }),
)
const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
test.beforeEach(() => {
  fetched = Promise.withResolvers()
  revoked = Promise.withResolvers()
})

const requests: [path: string, body: (url: string) => object][] = [
  ['/v1/videos', start_image_url => ({ prompt: 'A lighthouse', start_image_url })],
  ['/v1/meshes', image_url => ({ image_url })],
]
for (const [path, body] of requests)
  test.serial(`401 for a key that is revoked while the files of its first request are fetched: ${path}`, async t => {
    const { test: key, organisationId } = await gateway.account()
    const { keys, db } = gateway.services
    const answering = gateway.fetch(path, { key, body: body(`${files.url}/image.png`) })
    await Promise.race([fetched.promise, answering])
    await keys.revoke(organisationId, hashSecret(key), operatorActor)
    revoked.resolve()
    const answer = await answering
    t.is(answer.status, 401, await answer.clone().text())
    t.is(await db.job.count({ where: { organisationId } }), 0)
    t.is(await db.file.count({ where: { organisationId } }), 0)
  })
