#!/usr/bin/env node
// Prisma's schema engine for those who change the schema: the WebAssembly build from the npm registry, behind the JSON-RPC-over-stdio
// protocol that the Prisma CLI speaks with its native engine, which it would download from another host. prisma.config.ts names
// this file as the engine, so `prisma migrate dev | status | diff` work with npm packages alone. Deployments do not use it:
// prisma/migrate.ts applies migrations.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const args = process.argv.slice(2)

// The CLI's questions beside the protocol. The adapter below connects by itself and reports its own errors.
if (args.includes('--version')) console.log('schema-engine-wasm')
if (args.includes('--version') || args.includes('cli')) process.exit(0)

const require = createRequire(import.meta.url)
const { ColumnTypeEnum } = require('@prisma/driver-adapter-utils')
const connectTimeoutMs = 10_000
const schemaPath = fileURLToPath(new URL('../prisma/schema.prisma', import.meta.url))
// Opening connects to the database. What that fails with is the answer to a request: the CLI takes an engine that ends without one
// for a success.
let opening
/** The request under way. A panic of the engine ends the process, and the CLI takes silence for success. */
let pendingId
let panic = 'the schema engine panicked'
globalThis.PRISMA_WASM_PANIC_REGISTRY = { set_message: message => void (panic = message) }
process.on('uncaughtException', error => {
  fail(pendingId, `${panic}: ${error.message}`)
  process.exit(1)
})
/** What the adapter threw while the engine used it: the engine knows it by number only. */
let thrown
for await (const line of createInterface({ input: process.stdin })) await answer(JSON.parse(line))
process.exit(0)

/** Runs one request of the CLI. Messages without a method are its replies to our `print` calls. */
async function answer({ id, method, params }) {
  if (!method) return
  pendingId = id
  try {
    opening ??= openEngine()
    const engine = await opening
    const result = (await engine[method](params)) ?? {}
    if (result.stdout) send({ id: -id, method: 'print', params: { content: result.stdout } })
    send({ id, result })
  } catch (error) {
    fail(id, reasonOf(error), error?.code)
  }
}

function fail(id, message, error_code) {
  send({ id, error: { code: 4466, message, data: { is_panic: false, message, error_code } } })
}

function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
}

async function openEngine() {
  const { PrismaPg } = await import('@prisma/adapter-pg')
  const { bindMigrationAwareSqlAdapterFactory } = await import('@prisma/driver-adapter-utils')
  const { parse } = await import('pg-connection-string')
  const { SchemaEngine } = await loadWasm()
  // `migrate diff` names none, and the engine must have one.
  const paths = args.includes('--datamodels') ? valuesOf('--datamodels') : [schemaPath]
  const datamodels = paths.map(path => [path, readFileSync(path, 'utf8')])
  const datasource = JSON.parse(valuesOf('--datasource')[0] ?? '{}')
  // Host, port and database one by one: given a connection string, the adapter would take the database itself for the
  // shadow database.
  const connection = parse(datasource.url ?? process.env.DATABASE_URL ?? '')
  const adapter = new PrismaPg({ ...connection, connectionTimeoutMillis: connectTimeoutMs })
  const typed = readCharacters()
  adaptConnections(adapter, 'connect', typed)
  adaptConnections(adapter, 'connectToShadowDb', typed)
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
function adaptConnections(adapter, opening, typed) {
  const open = adapter[opening]
  adapter[opening] = async function () {
    const connection = await open.call(this)
    connection.executeScript = async sql => void (await connection.executeRaw({ sql, args: [], argTypes: [] }))
    const { queryRaw } = connection
    connection.queryRaw = async query => typed(await queryRaw.call(connection, query))
    return connection
  }
}

/**
 * The adapter knows no type for the system type "char" (OID 18), which introspection reads and the engine insists on: its columns are read as
 * text and told to the engine as characters.
 */
function readCharacters() {
  const text = 25
  const systemCharacter = 18
  const characters = new Set()
  const { prototype } = require('pg/lib/result.js')
  const { addFields } = prototype
  prototype.addFields = function (fields) {
    for (const field of fields) {
      if (field.dataTypeID !== systemCharacter) continue
      characters.add(field.name)
      field.dataTypeID = text
    }
    return addFields.call(this, fields)
  }
  return result => {
    for (const [i, name] of result.columnNames.entries())
      if (characters.has(name)) result.columnTypes[i] = ColumnTypeEnum.Character
    return result
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
