import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { accountHeaders, knownBetas, sentHeaders } from '../../shared/kinds/anthropic-headers.ts'
import {
  type MemberTable,
  messagesMembers,
  responsesMembers,
  unsentChatMembers,
} from '../../shared/kinds/request-members.ts'
import { allowedFields } from '../../shared/providers/toolkit/request-fields.ts'
import { test } from '../support/test.ts'

/**
 * The tables of members against the types of the installed SDKs: a new version that adds a member, a beta or a header
 * fails here until it was decided what the gateway does with it.
 */

const modules = join(import.meta.dirname, '../../node_modules')
const read = (path: string) => readFileSync(join(modules, path), 'utf8')

/** The members of an interface or object type in a declaration file, which its formatter indents by four spaces. */
function membersOf(path: string, declaration: string): string[] {
  const text = read(path)
  const start = text.indexOf(`export ${declaration} `)
  const body = text.slice(start, text.indexOf('\n}', start))
  return [...body.matchAll(/^ {4}(\w+)\??: /gm)].map(([, name]) => name!)
}

const snakeCase = (name: string) => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

const anthropic = '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts'
const openai = 'openai/resources'
const openrouter = '@openrouter/sdk/esm/models'
/** What the SDK sends as headers; the types have them beside the body's members. */
const headerParams = new Map([
  ['betas', 'anthropic-beta'],
  ['user_profile_id', 'anthropic-user-profile-id'],
  ['workspace_id', 'anthropic-workspace-id'],
])
const isKnownHeader = (name: string) => sentHeaders.has(name) || accountHeaders.has(name)
const inTable = (table: MemberTable) => (name: string) => table.has(name)
const inChat = (kind: keyof typeof allowedFields) => (name: string) =>
  allowedFields[kind].has(name) || unsentChatMembers.has(name)

const sources: [path: string, declaration: string, min: number, isKnown: (name: string) => boolean][] = [
  [anthropic, 'interface MessageCreateParamsBase', 25, name => messagesMembers.has(name) || headerParams.has(name)],
  [anthropic, 'interface MessageCountTokensParams', 15, name => messagesMembers.has(name) || headerParams.has(name)],
  [
    '@anthropic-ai/sdk/resources/messages/messages.d.ts',
    'interface MessageCreateParamsBase',
    15,
    name => messagesMembers.has(name) || headerParams.has(name),
  ],
  [`${openai}/responses/responses.d.ts`, 'interface ResponseCreateParamsBase', 30, inTable(responsesMembers)],
  [
    `${openai}/beta/responses/responses.d.ts`,
    'interface ResponseCreateParamsBase',
    30,
    name => responsesMembers.has(name) || name === 'betas',
  ],
  [`${openrouter}/responsesrequest.d.ts`, 'type ResponsesRequest =', 30, name => responsesMembers.has(snakeCase(name))],
  [`${openai}/chat/completions/completions.d.ts`, 'interface ChatCompletionCreateParamsBase', 30, inChat('chat')],
  [`${openrouter}/chatrequest.d.ts`, 'type ChatRequest =', 30, name => inChat('chat')(snakeCase(name))],
  [`${openai}/completions.d.ts`, 'interface CompletionCreateParamsBase', 15, inChat('completion')],
  [`${openai}/embeddings.d.ts`, 'interface EmbeddingCreateParams', 5, inChat('embedding')],
]

for (const [path, declaration, min, isKnown] of sources)
  test(`decided: every member of ${declaration} in ${path}`, t => {
    const members = membersOf(path, declaration)
    t.true(members.length >= min, `${members.length} members were found`)
    t.deepEqual(
      members.filter(name => !isKnown(name)),
      [],
      'decide on these in shared/kinds/request-members.ts',
    )
  })

test('decided: every beta of the SDK, and every header that it sends with a message', t => {
  const union = /export type AnthropicBeta = (.*);/.exec(read('@anthropic-ai/sdk/resources/beta/beta.d.ts'))![1]!
  const betas = [...union.matchAll(/'([^']+)'/g)].map(([, name]) => name!)
  t.true(betas.length > 50)
  t.deepEqual(
    betas.filter(name => !knownBetas.has(name)),
    [],
    'decide on these in shared/kinds/anthropic-headers.ts',
  )
  const methods = read('@anthropic-ai/sdk/resources/beta/messages/messages.mjs') + read('@anthropic-ai/sdk/client.mjs')
  const headers = new Set([...methods.matchAll(/'(anthropic-[a-z-]+)'/g)].map(([, name]) => name!))
  t.deepEqual(
    [...headers, ...headerParams.values()].filter(name => !isKnownHeader(name)),
    [],
  )
})

test('what a beta opens is decided on, too', t => {
  const elsewhere = ['blocks', 'nothing']
  for (const [beta, opens] of knownBetas)
    t.true(messagesMembers.has(opens) || elsewhere.includes(opens), `${beta} opens ${opens}`)
})

test('each member that does more than buy tokens says what, why and by which source', t => {
  for (const table of [messagesMembers, responsesMembers, unsentChatMembers])
    for (const [name, { is, concern, why, source }] of table) {
      if (concern) t.truthy(why, name)
      if (concern === 'state' || concern === 'data') t.true(is === 'ours' || source !== undefined, name)
      if (is === 'refused') t.truthy(concern, name)
    }
})
