// biome-ignore lint/suspicious/noExplicitAny: schemas of every shape
type Schema = any
/** A tool of an agent; a custom tool takes a text. */
export type Tool = { name: string; schema: Schema; isCustom: boolean; namespace?: string }
export type Call = { tool: Tool; input: object | string }
/** Where a conversation is: the step of a part. */
export type Place = { conversation: string; part: number; step: number; folder: string }
type Kind = 'shell' | 'read' | 'edit'
type Work = { kind: Kind; command: string; file: string; replacement: string }

const names: Record<Kind, RegExp> = {
  shell:
    /^(bash|shell|shell_command|exec_command|execute_command|run_commands?|run_shell_command|run_terminal_command)$/i,
  read: /^(read|read_file|read_files|view|view_file)$/i,
  edit: /^(edit|editor|edit_file|apply_patch|replace|replace_in_file|str_replace|str_replace_editor)$/i,
}
/** About 28,000 bytes in lines that no agent shortens, of words that are about as many tokens as the emulators state. */
const bigOutput = "seq -f 'The quick brown fox jumps over the lazy dog %g.' 1 550"

/** What a step leaves in the conversation, whichever tool took it. */
export const markOf = (conversation: string, part: number, step: number) => `${conversation}-${part}-${step}`
/** The file that a step reads, and the next one edits. Its name has no mark: agents may list the files of their folder. */
export const fileOf = ({ folder, part, step }: Place) => `${folder}/part${part}step${step}.txt`
/** What is in that file, and what the edit puts in the place of `alpha`. */
export function contentOf({ conversation, part, step }: Place): string {
  return `first\nalpha\n${markOf(conversation, part, step)}\n`
}
export const editOf = ({ conversation, part, step }: Place) => `beta ${markOf(conversation, part, step)}`

/** The calls of one step: `shell`, `read`, `edit` (of the file that the step before has read), `parallel` or `big`. */
export function callsFor(kind: string, place: Place, tools: Tool[]): Call[] {
  const echo = `echo ${markOf(place.conversation, place.part, place.step)}`
  const work = { kind: 'shell' as Kind, command: echo, file: fileOf(place), replacement: editOf(place) }
  if (kind === 'read') return [callOf({ ...work, kind }, tools)]
  if (kind === 'edit') return [callOf({ ...work, kind, file: fileOf({ ...place, step: place.step - 1 }) }, tools)]
  if (kind === 'big') return [callOf({ ...work, command: `${bigOutput}; ${echo}` }, tools)]
  if (kind === 'parallel') return [callOf(work, tools), callOf({ ...work, command: `${echo} again` }, tools)]
  return [callOf(work, tools)]
}

/** How a kind of work is done with the tools that the agent has: by its own tool, or in its shell. */
function callOf(work: Work, tools: Tool[]): Call {
  const tool = tools.find(({ name }) => names[work.kind].test(name))
  if (tool && /patch/.test(tool.name)) return patchWith(tool, work)
  if (tool) return { tool, input: valueFor(tool.schema, '', { work, root: tool.schema, depth: 0 }) as object }
  if (work.kind === 'shell') throw new Error(`no shell among ${tools.map(({ name }) => name)}`)
  const { file, replacement } = work
  const command = work.kind === 'read' ? `cat ${file}` : `sed -i 's/alpha/${replacement}/' ${file}`
  return callOf({ ...work, kind: 'shell', command }, tools)
}

function patchWith(tool: Tool, { file, replacement }: Work): Call {
  const patch = `*** Begin Patch\n*** Update File: ${file}\n@@\n-alpha\n+${replacement}\n*** End Patch`
  const [field = 'input'] = Object.keys(tool.schema?.properties ?? {})
  return { tool, input: tool.isCustom ? patch : { [field]: patch } }
}

type Context = { work: Work; root: Schema; depth: number }
const maxDepth = 8

/** A value for one member of a tool's arguments, by its schema and its name. */
function valueFor(schema: Schema, name: string, context: Context): unknown {
  const inner = { ...context, depth: context.depth + 1 }
  if (context.depth > maxDepth) return null
  if (schema.$ref) return valueFor(resolve(schema.$ref, context.root), name, inner)
  const options = schema.anyOf ?? schema.oneOf
  if (options)
    return valueFor(
      options.find((one: Schema) => one.type !== 'null'),
      name,
      inner,
    )
  const type = [schema.type ?? (schema.properties ? 'object' : 'string')].flat().find(one => one !== 'null')
  if (type === 'object') return objectFor(schema, inner)
  if (type === 'array') {
    const items = valueFor(schema.items ?? {}, name.replace(/s$/, ''), inner)
    return [items]
  }
  if (type === 'boolean') return false
  if (type === 'integer' || type === 'number')
    return /timeout|ms$/i.test(name) ? 10_000 : Math.max(schema.minimum ?? 1, 1)
  return schema.const ?? textFor(schema, name, context.work)
}

/** The required members, and those that do the work. */
function objectFor(schema: Schema, context: Context): object {
  const required: string[] = schema.required ?? []
  const members = Object.entries<Schema>(schema.properties ?? {})
  const given = members.filter(([name]) => required.includes(name) || isPartOf(context.work.kind, name))
  return Object.fromEntries(given.map(([name, member]) => [name, valueFor(member, name, context)]))
}

function isPartOf(kind: Kind, name: string): boolean {
  if (kind === 'shell') return /^(command|cmd|commands)$/i.test(name)
  if (kind === 'read') return /^(file_?path|path|files)$/i.test(name)
  return /^(command|file_?path|path|old_?(str|string|text)|new_?(str|string|text))$/i.test(name)
}

function textFor(schema: Schema, name: string, { kind, command, file, replacement }: Work): string {
  if (schema.enum)
    return (
      schema.enum.find((one: string) => ({ read: /view/, edit: /str_replace/, shell: /^$/ })[kind].test(one)) ??
      schema.enum[0]
    )
  if (/^(command|cmd|script)$/i.test(name)) return { shell: command, edit: 'str_replace', read: 'view' }[kind]
  if (/path|file/i.test(name)) return file
  if (/^old|^search$/i.test(name)) return 'alpha'
  if (/^new|^replace/i.test(name)) return replacement
  return 'A step of the work'
}

function resolve(reference: string, root: Schema): Schema {
  return (
    reference
      .replace(/^#\//, '')
      .split('/')
      .reduce((node, name) => node?.[name], root) ?? {}
  )
}
