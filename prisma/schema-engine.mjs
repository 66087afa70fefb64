#!/usr/bin/env node
// Prisma's schema engine: the WebAssembly build from the npm registry, behind the JSON-RPC-over-stdio protocol that the
// Prisma CLI speaks with its native engine. Why: the CLI would download that native binary at first use, which fails
// behind firewalls and makes a deployment depend on one more host. prisma.config.ts names this file as the engine, so
// `prisma migrate dev | deploy | status | diff` work as usual, with nothing but npm packages.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const args = process.argv.slice(2)

// The CLI's questions beside the protocol. The adapter below connects by itself and reports its own errors.
if (args.includes('--version')) console.log('schema-engine-wasm')
if (args.includes('--version') || args.includes('cli')) process.exit(0)

const require = createRequire(import.meta.url)
const connectTimeoutMs = 10_000
// Opening connects to the database. What that fails with is the answer to a request: the CLI takes an engine that ends without one
// for a success.
let opening
/** What the adapter threw while the engine used it: the engine knows it by number only. */
let thrown
for await (const line of createInterface({ input: process.stdin })) await answer(JSON.parse(line))
process.exit(0)

/** Runs one request of the CLI. Messages without a method are its replies to our `print` calls. */
async function answer({ id, method, params }) {
  if (!method) return
  try {
    opening ??= openEngine()
    const engine = await opening
    const result = (await engine[method](params)) ?? {}
    if (result.stdout) send({ id: -id, method: 'print', params: { content: result.stdout } })
    send({ id, result })
  } catch (error) {
    const message = reasonOf(error)
    send({ id, error: { code: 4466, message, data: { is_panic: false, message, error_code: error?.code } } })
  }
}

function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
}

async function openEngine() {
  const { PrismaPg } = await import('@prisma/adapter-pg')
  const { bindMigrationAwareSqlAdapterFactory } = await import('@prisma/driver-adapter-utils')
  const { parse } = await import('pg-connection-string')
  readCharAsText()
  const { SchemaEngine } = await loadWasm()
  const datamodels = valuesOf('--datamodels').map(path => [path, readFileSync(path, 'utf8')])
  const datasource = JSON.parse(valuesOf('--datasource')[0] ?? '{}')
  // Host, port and database one by one: given a connection string, the adapter would take the database itself for the
  // shadow database.
  const connection = parse(datasource.url ?? process.env.DATABASE_URL ?? '')
  const adapter = new PrismaPg({ ...connection, connectionTimeoutMillis: connectTimeoutMs })
  sendScriptsWhole(adapter, 'connect')
  sendScriptsWhole(adapter, 'connectToShadowDb')
  const bound = bindMigrationAwareSqlAdapterFactory(adapter)
  thrown = bound.errorRegistry
  return SchemaEngine.new({ datamodels }, () => {}, bound)
}

/** One line that says what went wrong. */
function reasonOf(error) {
  const message = String(error?.message ?? error)
  const number = /^External error id#(\d+)\s*$/.exec(message)?.[1]
  const cause = number && thrown?.consumeError(Number(number))?.error
  return cause ? String(cause.message || cause) : message
}

function valuesOf(option) {
  return args.flatMap((arg, index) => (arg === option ? [args[index + 1]] : []))
}

/**
 * The adapter would cut a migration at every semicolon, those inside of functions too. Postgres takes it whole, as it would
 * from the native engine: in one transaction.
 */
function sendScriptsWhole(adapter, opening) {
  const open = adapter[opening]
  adapter[opening] = async function () {
    const connection = await open.call(this)
    connection.executeScript = async sql => void (await connection.executeRaw({ sql, args: [], argTypes: [] }))
    return connection
  }
}

/** The adapter has no mapping for the system type "char" (OID 18), which introspection reads: present it as text (25). */
function readCharAsText() {
  const { prototype } = require('pg/lib/result.js')
  const { addFields } = prototype
  prototype.addFields = function (fields) {
    for (const field of fields) if (field.dataTypeID === 18) field.dataTypeID = 25
    return addFields.call(this, fields)
  }
}

/** The package's own loader expects a bundler, so its two halves are joined here. */
async function loadWasm() {
  const glue = await import('@prisma/schema-engine-wasm/schema_engine_bg')
  const path = require.resolve('@prisma/schema-engine-wasm').replace('schema_engine.js', 'schema_engine_bg.wasm')
  const imports = { './schema_engine_bg.js': glue }
  const { instance } = await WebAssembly.instantiate(readFileSync(path), imports)
  glue.__wbg_set_wasm(instance.exports)
  instance.exports.__wbindgen_start?.()
  return glue
}
