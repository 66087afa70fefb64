import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../../support/gateway.ts'
import { runOperator, storesEnv } from '../../support/operator.ts'
import { inherited, shortLived } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { useFolder, useGateway, useStores } from '../../support/use.ts'

const root = join(import.meta.dirname, '../../..')
const keysPerOrganisation = 20
const kills = 4

const stores = useStores(test)
const gateway = useGateway(test, {}, { stores })
const folder = useFolder(test)

/** A file of so many organisations, each with keys and a preset, and some changes of the catalog. */
function fileOf(organisations: number): string {
  const keys = Object.fromEntries(
    Array.from({ length: keysPerOrganisation }, (_, i) => [`k${i}`, { environment: 'test' }]),
  )
  const one = (i: number) => ({ name: `Killed ${i}`, keys, presets: { support: { model: 'auto', temperature: 0.1 } } })
  const all = Object.fromEntries(Array.from({ length: organisations }, (_, i) => [`o${i}`, one(i)]))
  return JSON.stringify({ owner: 'killed', aliases: { 'killed-alias': 'gpt-4o' }, organisations: all })
}

test.serial(
  'after kill -9 at any step, the next run makes the rest: nothing twice, and every secret works',
  async t => {
    const { db } = gateway.services
    const [file, output] = [join(folder, 'gateway.json'), join(folder, 'secrets.json')]
    const args = ['apply', '-f', file, '--yes', '--output', output]
    const env = storesEnv(stores)
    writeFileSync(file, fileOf(kills))
    for (let round = 1; round <= kills; round++) {
      const made = await db.appliedObject.count()
      const child = spawn(process.execPath, [...shortLived, 'api/operator.ts', ...args], {
        cwd: root,
        env: { ...inherited, ...env },
        stdio: 'ignore',
      })
      const ended = once(child, 'exit')
      await eventually(
        async () => (await db.appliedObject.count()) >= made + 7 * round || child.exitCode !== null,
        'some steps are done',
      )
      child.kill('SIGKILL')
      await ended
      // What the lease's time would do.
      await db.setting.deleteMany({ where: { name: 'apply_lease' } })
    }
    const { exitCode, stderr } = await runOperator(env, ...args)
    t.is(exitCode, 0, stderr)
    t.is(await db.organisation.count({ where: { name: { startsWith: 'Killed' } } }), kills)
    t.is(await db.apiKey.count(), kills * keysPerOrganisation)
    t.is(await db.preset.count(), kills)
    t.is(await db.catalogOverride.count(), 1)
    const secrets = Object.values(JSON.parse(readFileSync(output, 'utf8'))) as string[]
    t.is(secrets.length, kills * keysPerOrganisation)
    for (const key of secrets) t.is((await gateway.fetch('/v1/models', { key })).status, 200)
    const again = await runOperator(env, ...args)
    t.regex(again.stdout, /No changes/)
  },
)
