import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { variables } from '../../shared/base/variables.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { test } from '../support/test.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const packaged = ['app.json', 'compose.yml', 'render.yaml', 'fly.toml', 'Dockerfile', 'ops/helm/headgate/values.yaml']
const templates = ['_helpers.tpl', 'deployments.yaml', 'migrate.yaml'].map(
  file => `ops/helm/headgate/templates/${file}`,
)

/** What platforms, images, Node itself and the C library read. */
const others = new Set([
  'PGSSLMODE',
  'NODE_ENV',
  'MALLOC_ARENA_MAX',
  'BIND',
  'CMD_SHELL',
  'POSTGRES_USER',
  'POSTGRES_DB',
  'POSTGRES_PASSWORD',
])

test('every variable in the files of platforms is one that the gateway reads', t => {
  const providers = [...loadCatalog().providers.keys()].map(name => `${name.toUpperCase()}_API_KEY`)
  const known = new Set([...Object.keys(variables.shape), 'DIRECT_DATABASE_URL', ...providers])
  for (const path of [...packaged, ...templates]) {
    const text = read(path).replace(/^\s*#.*$/gm, '')
    const names = new Set(text.match(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g))
    const unknown = [...names].filter(name => !known.has(name) && !others.has(name))
    t.deepEqual(unknown, [], path)
  }
})

test('the image starts processes as the npm scripts and the Procfile do', t => {
  const { scripts } = JSON.parse(read('package.json'))
  const entrypoint = read('ops/docker-entrypoint.sh')
  const procfile = read('Procfile')
  for (const [name, script] of [
    ['web', scripts.start],
    ['worker', scripts['start:worker']],
  ]) {
    t.true(entrypoint.includes(`  ${name}) ${script} ;;`), name)
    t.true(procfile.includes(`${name}: ${script.replace('exec ', '')}\n`), name)
  }
  for (const name of ['migrate', 'operator'])
    t.true(entrypoint.includes(`  ${name}) shift && exec ${scripts[name]} "$@" ;;`), name)
})

test('platforms wait longer for a process to stop than it takes to finish its requests', t => {
  const graceMs = variables.shape.SHUTDOWN_GRACE_MS.parse(undefined)
  const waits = {
    'compose.yml': /stop_grace_period: (\d+)s/,
    'render.yaml': /maxShutdownDelaySeconds: (\d+)/,
    'fly.toml': /kill_timeout = "(\d+)s"/,
    'ops/helm/headgate/values.yaml': /terminationGracePeriodSeconds: (\d+)/,
  }
  for (const [path, pattern] of Object.entries(waits))
    t.true(Number(pattern.exec(read(path))?.[1]) * 1_000 > graceMs, path)
})
