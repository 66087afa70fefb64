import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { test } from '../support/test.ts'

/** The layer of each folder in docs/ARCHITECTURE.md. A file outside all of them is a tool or a test. */
const layers: Record<string, number> = {
  'shared/generated': 0,
  'shared/base': 1,
  'shared/io': 2,
  'shared/catalog': 3,
  'shared/kinds': 4,
  'shared/keys': 4,
  'shared/wallet': 4,
  'shared/limiter': 4,
  'shared/queues': 4,
  'shared/metrics': 4,
  'shared/traces': 5,
  'shared/providers': 5,
  'shared/payments': 5,
  'shared/feedback': 5,
  'shared/presets': 5,
  'shared/guardrails': 5,
  'shared/routing': 6,
  'shared/platform.ts': 7,
  'shared/files': 8,
  'shared/webhooks': 8,
  'shared/content-log': 9,
  'shared/alerts': 9,
  'shared/engine': 9,
  'shared/log-exports': 10,
  'shared/chat': 10,
  'shared/media': 10,
  'shared/realtime': 10,
  'shared/jobs': 10,
  'shared/responses': 11,
  'shared/delayed': 12,
  'shared/batches': 12,
  'shared/retention': 13,
  'shared/open-services.ts': 14,
  api: 15,
  workers: 15,
}
const root = join(import.meta.dirname, '../..')

type Import = { path: string; typeOnly: boolean }
type Source = { path: string; text: string; code: string; imports: Import[] }

// This file contains the patterns it searches for.
const excluded =
  /^(?:shared\/generated|bench\/peers|test\/clients\/openapi\/generated)\/|node_modules|^test\/deploy\/architecture\.test\.ts$/
const sources = globSync(['*.ts', '{api,workers,shared,dev,test,bench,prisma,examples}/**/*.{ts,tsx,mjs}'], {
  cwd: root,
  exclude: ['**/node_modules'],
})
  .filter(path => !excluded.test(path))
  .map(read)
/** Browser code; it also shows snippets to run elsewhere. */
const pages = 'api/dashboard/web/'
const product = sources.filter(({ path }) => folderOf(path) !== null)
const server = product.filter(({ path }) => !path.startsWith(pages))

function read(path: string): Source {
  const text = readFileSync(join(root, path), 'utf8')
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
  return { path, text, code, imports: importsOf(path, code) }
}

/** The files of this repository that a file imports: static, re-exporting, dynamic and type imports. */
function importsOf(path: string, code: string): Import[] {
  const found: Import[] = []
  const statements =
    /^(?:import|export)\b(\s+type\b)?(?:[^'"`;=]*?\bfrom)?\s*['"](\.[^'"]+)['"]|\bimport\(\s*['"](\.[^'"]+)['"]/gm
  for (const [, type, named, dynamic] of code.matchAll(statements)) {
    // Strip a bundler's query such as `?url`.
    const file = (named ?? dynamic)!.replace(/\?.*$/, '')
    const target = relative(root, join(root, dirname(path), file))
    found.push({ path: target, typeOnly: type !== undefined })
  }
  return found
}

/** The folder (or file) of `layers` that contains a path. */
function folderOf(path: string): string | null {
  return Object.keys(layers).find(folder => path === folder || path.startsWith(`${folder}/`)) ?? null
}

test('the parser finds every kind of import', t => {
  const code = `import './a.ts'\nimport x, { y } from '../b.ts'\nimport type {\n  Z,\n} from './c.ts'\nexport { w } from "./d.ts"\nconst e = await import('./e.ts')\nimport fs from 'node:fs'`
  t.deepEqual(importsOf('api/f/g.ts', code), [
    { path: 'api/f/a.ts', typeOnly: false },
    { path: 'api/b.ts', typeOnly: false },
    { path: 'api/f/c.ts', typeOnly: true },
    { path: 'api/f/d.ts', typeOnly: false },
    { path: 'api/f/e.ts', typeOnly: false },
  ])
  t.true(product.length > 50)
  t.true(sources.every(({ path, imports }) => imports.length > 0 || !/^import .* from '\./m.test(read(path).code)))
})

test('every import resolves to a file', t => {
  const missing = sources.flatMap(({ path, imports }) =>
    imports
      // Generated clients exist only after their tests have run.
      .filter(({ path: target }) => !target.startsWith('test/clients/openapi/generated/'))
      .filter(({ path: target }) => !existsSync(join(root, target)))
      .map(({ path: target }) => `${path} → ${target}`),
  )
  t.deepEqual(missing, [])
})

/** Packages that are loaded by the first request that needs them, or where they are configured (shared/base/code-cache.js). */
const deferred =
  /^(?:@?better-auth|stripe|pdfkit|sharp|unpdf|mediabunny|nodemailer|@aws-sdk|prom-client|@opentelemetry|gpt-tokenizer)(?:\/|$)/

test('no process loads a deferred package at its start', t => {
  const loaded = new Set(['api/serve.ts', 'api/operator/main.ts', 'workers/work.ts'])
  const early: string[] = []
  for (const path of loaded) {
    const { code, imports } = read(path)
    const named = code.matchAll(/^(?:import|export)\b(?!\s+type\b)(?:[^'"`;=]*?\bfrom)?\s*['"]([^'"]+)['"]/gm)
    const specifiers = [...named].map(([, specifier]) => specifier!)
    early.push(...specifiers.filter(one => deferred.test(one)).map(one => `${path} → ${one}`))
    const isStatic = (target: string) => specifiers.some(one => join(dirname(path), one) === target)
    for (const { path: target } of imports) if (/\.ts$/.test(target) && isStatic(target)) loaded.add(target)
  }
  t.true(loaded.size > 300)
  t.deepEqual(early, [])
})

test('a file imports only from lower layers or from its own folder', t => {
  const upward: string[] = []
  for (const { path, imports } of product) {
    const own = folderOf(path)!
    for (const target of imports) {
      const other = folderOf(target.path)
      const down = other !== null && (other === own || layers[other]! < layers[own]!)
      if (!down) upward.push(`${path} → ${target.path}`)
    }
  }
  t.deepEqual(upward, [])
})

test('there are no import cycles', t => {
  const imports = new Map(sources.map(source => [source.path, source.imports.map(({ path }) => path)]))
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (path: string, trail: string[]) => {
    if (trail.includes(path)) return void cycles.push([...trail.slice(trail.indexOf(path)), path].join(' → '))
    if (done.has(path)) return
    for (const target of imports.get(path) ?? []) visit(target, [...trail, path])
    done.add(path)
  }
  for (const path of imports.keys()) visit(path, [])
  t.deepEqual(cycles, [])
})

test('there are no barrel files', t => {
  const barrels = sources.filter(({ code }) => {
    const rest = code.replace(/^(?:import|export)\b[^'"`;=]*?\bfrom\s*['"][^'"]+['"];?$/gm, '').trim()
    return rest === ''
  })
  t.deepEqual(
    barrels.map(({ path }) => path),
    [],
  )
})

test('the environment is read only by the configuration and by tools', t => {
  const readers = sources
    .filter(({ path, code }) => !path.startsWith(pages) && /\bprocess\.env\b/.test(code))
    .map(({ path }) => path)
  const allowed = /^(dev|test|bench|examples)\/|^prisma\.config\.ts$|^prisma\/migrate\.ts$|^shared\/base\/config\.ts$/
  t.deepEqual(
    readers.filter(path => !allowed.test(path)),
    [],
  )
  t.true(readers.includes('shared/base/config.ts'))
})

/** Where the system's clocks are read: their file, and what compares both. */
const clockReaders = ['shared/base/time.ts', 'shared/io/clock-skew.ts']

test('the clocks are read through shared/base/time.ts', t => {
  const reading = /\bDate\.now\b|\bperformance\.(?:now|timeOrigin)\b|\bhrtime\b|\bnew Date\(\)/
  const readers = server.filter(({ code }) => reading.test(code)).map(({ path }) => path)
  t.deepEqual(
    readers.filter(path => !clockReaders.includes(path)),
    [],
  )
  t.true(readers.includes('shared/base/time.ts'))
})

/** Ages of what other processes have stored, and differences between the clocks of processes. */
const wallAges = ['shared/jobs/avatar-catalogs.ts', 'shared/alerts/incident-watch.ts', 'shared/chat/cached-run.ts']

/** The differences of two readings of the wall clock in a file. */
function wallDurations(code: string): string[] {
  const reading = String.raw`[\w.#]*\b(?:clock|systemClock)\.now\(\)`
  const named = [...code.matchAll(new RegExp(`(\\w+)\\s*(?:=|:|\\?\\?=)\\s*${reading}(?!\\s*[-+])`, 'g'))]
  const names = [...new Set(named.map(([, name]) => name))].join('|')
  const operand = names === '' ? reading : `(?:${reading}|[\\w.#!]*\\b(?:${names})\\b)`
  return [...code.matchAll(new RegExp(`${operand} - ${operand}`, 'g'))].map(([text]) => text)
}

test('no duration is the difference of two readings of the wall clock', t => {
  t.deepEqual(wallDurations('const startedMs = clock.now()\nreturn services.clock.now() - startedMs'), [
    'services.clock.now() - startedMs',
  ])
  t.deepEqual(wallDurations('this.#atMs = this.#clock.now()\nnowMs = clock.now()\nif (nowMs - this.#atMs > 1) f()'), [
    'nowMs - this.#atMs',
  ])
  t.deepEqual(wallDurations('const since = new Date(clock.now() - dayMs)'), [])
  const found = server.flatMap(({ path, code }) => wallDurations(code).map(text => `${path}: ${text}`))
  t.deepEqual(
    found.filter(line => !wallAges.some(path => line.startsWith(`${path}:`))),
    [],
  )
})

test('only entry points have side effects on import', t => {
  // A top-level statement that is a call, a loop, a condition or an await, not a declaration.
  const effect = /^(?:(?:await|void|if|for|while|try|switch|new)\b|[\w.]+\()/m
  const entries = [
    'api/server.ts',
    'api/operator.ts',
    'shared/io/media/media-process.ts',
    'workers/main.ts',
    'api/dashboard/build.ts',
    'api/docs-site/build.ts',
  ]
  t.deepEqual(
    server.filter(({ path, code }) => !entries.includes(path) && effect.test(code)).map(({ path }) => path),
    [],
  )
  for (const entry of entries) t.regex(sources.find(({ path }) => path === entry)!.code, effect, entry)
})

test('a provider’s name is in its own folder, the table of protocols and the catalog’s data only', t => {
  const names = [...loadCatalog().providers.keys()].join('|')
  const named = new RegExp(`['"\`](?:${names})['"\`]|\\bprotocols\\.(?:${names})\\b`, 'g')
  const found = server.flatMap(({ path, code }) => {
    const own = /^shared\/providers\/(?:adapters|sandbox)\/([\w-]+)\//.exec(path)
    if (own || path === 'shared/providers/protocols.ts') return []
    return [...code.matchAll(named)].map(([text]) => `${path}: ${text}`)
  })
  // The sandbox speaks the gateway's own dialect, the `openai` protocol; the documented body of a provider key has to name one.
  const known = ['shared/providers/upstreams.ts: protocols.openai', "api/routes/provider-keys.ts: 'magic_hour'"]
  t.deepEqual(
    found.filter(line => !known.includes(line)),
    [],
  )
})

test('no test is skipped, singled out or left to be written', t => {
  const left = /\btest(?:\.\w+)*\.(?:only|skip|todo|failing)\b/
  t.deepEqual(
    sources.filter(({ code }) => left.test(code)).map(({ path }) => path),
    [],
  )
})

test('no file has a TODO, a FIXME or an unimplemented function', t => {
  const unfinished = /\b(?:TODO|FIXME|XXX)\b|not (?:yet )?implemented/
  const found = sources.filter(({ text }) => unfinished.test(text))
  t.deepEqual(
    found.map(({ path }) => path),
    [],
  )
})

test('no object literal is spread into another', t => {
  const spread = /[^{]\.\.\.\{/
  t.deepEqual(
    product.filter(({ code }) => spread.test(code)).map(({ path }) => path),
    [],
  )
})
