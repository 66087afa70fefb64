import { readFileSync } from 'node:fs'
import type { Redis as SingleRedis } from 'ioredis'
import { keyPrefixOf, type Redis } from './redis.ts'
import type { Shard, Shards } from './redis-shards.ts'

type Type = 'text' | 'number'
type Fields = { readonly [name: string]: Type }
type Definition<Key extends string, Args> = {
  name: string
  /** The source, or the files that make it up, in order. They are read at the first call. */
  lua: string | readonly URL[]
  /** Keys that each call names. */
  keys?: readonly Key[]
  /** Keys whose names are the same in all calls. */
  fixedKeys?: { readonly [name: string]: string }
  /** Prefixes of the keys that the script derives from its arguments. */
  keyPrefixes?: { readonly [name: string]: string }
  /**
   * Whether a Redis that is full (`maxmemory`) runs it, too: for what charges, and what books usage events, which makes room. Redis
   * refuses a script whose first write may take room, so it begins with one that takes none, of its first fixed key, which must not expire.
   */
  runsWhenFull?: true
  /** The arguments by name, in camel case. An object of fields declares a list of records. */
  args?: Args
}
type Arguments = { readonly [name: string]: Type | Fields }
type Value<T> = T extends 'number' ? number | bigint : string | number | bigint
type RecordOf<F> = { readonly [Name in keyof F]: Value<F[Name]> }
type ValueOf<A> = A extends Type ? Value<A> : readonly RecordOf<A>[]
type Values<Key extends string, Args> = { readonly [Name in Key]: string } & {
  readonly [Name in keyof Args]: ValueOf<Args[Name]>
}
/**
 * Runs the script on a connection with its keys and arguments by name. `tag` is put before its fixed keys and its prefixes, which
 * a Redis Cluster needs to have them in one slot; default none. Throws what Redis throws; TypeError for wrong names.
 */
type Script<Key extends string, Args> = (redis: Redis, values: Values<Key, Args>, tag?: string) => Promise<unknown>

/** A script has its keys under their plain names, or under a tag. */
type Form = 'plain' | 'tagged'

/** Terminates each field of a list of records, which is one argument. Ids, numbers and JSON do not contain it. */
const separator = '\x1f'

/**
 * Defines a Lua script that runs atomically in Redis. In its source, keys, prefixes and arguments are locals of the same
 * names in snake case: `nowMs` is `now_ms`. A number is a Lua number. A list of records is a table of tables; it is sent as one
 * argument, because hundreds of small arguments would cost the client more than the script itself.
 */
export function defineScript<const Key extends string = never, const Args extends Arguments = Record<never, Type>>(
  definition: Definition<Key, Args>,
): Script<Key, Args> {
  const { name, keys = [], fixedKeys = {} } = definition
  const args: Arguments = definition.args ?? {}
  const commands = { plain: `headgate:${name}`, tagged: `headgate:${name}:tagged` }
  const fixedNames = Object.values(fixedKeys)
  const names = new Set<string>([...keys, ...Object.keys(args)])
  const connections = { plain: new WeakSet<Redis>(), tagged: new WeakSet<Redis>() }
  const define = (redis: Redis, form: Form) => {
    const { lua } = definition
    const source = typeof lua === 'string' ? lua : lua.map(file => readFileSync(file, 'utf8')).join('\n')
    redis.defineCommand(commands[form], {
      numberOfKeys: (form === 'tagged' ? 1 : 0) + fixedNames.length + keys.length,
      lua: `${preludeOf(definition, form, keyPrefixOf(redis))}\n${source}`,
    })
    connections[form].add(redis)
    releaseArguments(redis)
  }
  const pack = (values: { readonly [name: string]: unknown }, tag: string) => {
    for (const given in values) if (!names.has(given)) throw new TypeError(`script ${name} has no argument ${given}`)
    const list = tag === '' ? [...fixedNames] : [tag, ...fixedNames.map(key => tag + key)]
    for (const key of keys) list.push(textOf(values[key], key, name))
    for (const arg in args) {
      const type = args[arg]!
      const isScalar = typeof type === 'string'
      list.push(isScalar ? textOf(values[arg], arg, name) : packRecords(values[arg], type, arg, name))
    }
    return list
  }
  return async (redis, values, tag = '') => {
    const form = tag === '' ? 'plain' : 'tagged'
    if (!connections[form].has(redis)) define(redis, form)
    const defined = redis as unknown as Record<string, (...args: string[]) => Promise<unknown>>
    return defined[commands[form]]!(...pack(values, tag))
  }
}

/** A script on a connection. Each call is about one of its shards, which must be named where there are several. */
export function bindScript<Values>(
  script: (redis: Redis, values: Values, tag: string) => Promise<unknown>,
  redis: Redis,
  shards: Shards,
): (values: Values, shard?: Shard) => Promise<unknown> {
  return (values, shard = shards.only) => script(redis, values, shard.tag)
}

/** Connections whose commands are emptied once they are answered. */
const releasing = new WeakSet<Redis>()

/**
 * Empties each command of a connection once it is answered, or its arguments would stay until the next collection of the whole
 * heap, all usage events among them: the client assigns a function to each command as its `reject`, V8 allocates a function that
 * is assigned to a property in the old generation, and what an object there refers to survives the collections of the young one.
 * Commands of a pipeline, which come with its stream, keep theirs: in a cluster they may be sent again.
 */
function releaseArguments(redis: Redis): void {
  if (releasing.has(redis)) return
  releasing.add(redis)
  const send = redis.sendCommand.bind(redis) as SingleRedis['sendCommand']
  const sendReleasing: typeof send = (command, ...others) => {
    const release = () => {
      command.args = []
    }
    if (others.length === 0) command.promise.then(release, release)
    return send(command, ...others)
  }
  redis.sendCommand = sendReleasing
}

function textOf(value: unknown, argument: string, script: string): string {
  if (value === undefined || value === null) throw new TypeError(`script ${script} needs the argument ${argument}`)
  return String(value)
}

function packRecords(records: unknown, fields: Fields, argument: string, script: string): string {
  if (!Array.isArray(records)) throw new TypeError(`script ${script} needs the list ${argument}`)
  let packed = ''
  for (const record of records as readonly Record<string, unknown>[]) {
    for (const field in fields) {
      const value = record[field]
      if (value === undefined || value === null)
        throw new TypeError(`script ${script} needs the field ${field} in ${argument}`)
      if (typeof value === 'string' && value.includes(separator))
        throw new TypeError(`script ${script} cannot send the field ${field} in ${argument}: it contains U+001F`)
      packed += value + separator
    }
  }
  return packed
}

/**
 * One line of Lua that gives names to the keys and arguments. The client adds the connection's key prefix to declared keys only.
 * In the tagged form, the tag is the first of these: so the derived keys have the prefix, and a cluster knows their slot.
 */
function preludeOf(definition: Definition<string, Arguments>, form: Form, connectionPrefix: string): string {
  const { keys = [], fixedKeys = {}, keyPrefixes = {}, args = {}, runsWhenFull } = definition
  const isTagged = form === 'tagged'
  const firstKey = isTagged ? 2 : 1
  const lines = runsWhenFull ? [`redis.call('PERSIST', KEYS[${firstKey}])`] : []
  for (const [i, key] of [...Object.keys(fixedKeys), ...keys].entries())
    lines.push(`local ${snakeCase(key)} = KEYS[${i + firstKey}]`)
  for (const [name, prefix] of Object.entries(keyPrefixes))
    lines.push(`local ${snakeCase(name)} = ${isTagged ? `KEYS[1] .. '${prefix}'` : `'${connectionPrefix}${prefix}'`}`)
  for (const [i, [name, type]] of Object.entries(args).entries()) {
    const value = `ARGV[${i + 1}]`
    lines.push(
      typeof type === 'string' ? `local ${snakeCase(name)} = ${converted(value, type)}` : unpacking(name, value, type),
    )
  }
  return lines.join('; ')
}

function unpacking(name: string, packed: string, fields: Fields): string {
  const list = snakeCase(name)
  const entries = Object.entries(fields)
  const captures = entries.map((_, i) => `f${i}`).join(', ')
  const table = entries.map(([field, type], i) => `${snakeCase(field)} = ${converted(`f${i}`, type)}`).join(', ')
  const pattern = '([^\\31]*)\\31'.repeat(entries.length)
  return `local ${list} = {}; for ${captures} in string.gmatch(${packed}, '${pattern}') do ${list}[#${list} + 1] = { ${table} } end`
}

const converted = (value: string, type: Type) => (type === 'number' ? `tonumber(${value})` : value)

const snakeCase = (name: string) => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
