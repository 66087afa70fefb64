// Writes the snippets of docs/agents.md: the set-up of each client with models of the shipped catalog. The dashboard shows
// the same ones with the address, keys and models of the running service.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type AgentModel,
  type AgentSnippet,
  agentModels,
  agentSnippets,
} from '../api/dashboard/web/pages/keys/agent-snippets.ts'
import { loadCatalog } from '../shared/catalog/catalog.ts'
import { endpoints } from '../shared/catalog/schema.ts'

export const page = join(import.meta.dirname, 'agents.md')
const markers = { begin: '<!-- snippets: node docs/agent-snippets.ts -->', end: '<!-- end of snippets -->' }
const examples = { claude: 'claude-sonnet-5-5', other: 'gpt-6-sol' }
/** The clients whose set-up differs by more than the model’s name. */
const differing = ['Claude Code', 'opencode']

/** The snippets, as Markdown. */
export function agentSections(): string {
  const models = [...loadCatalog().models.values()]
    .filter(({ disabled }) => !disabled)
    .map(row => ({ ...row, endpoint: row.endpoint ?? endpoints[row.type] }))
  const [claude, other] = [snippetsFor(examples.claude, models), snippetsFor(examples.other, models)]
  return other
    .map((snippet, index) => {
      const { client, place } = snippet
      const blocks = differing.includes(client)
        ? ['With a Claude model:', blockOf(claude[index]!), 'With any other model:', blockOf(snippet)]
        : [blockOf(snippet)]
      return [`### ${client}`, place, ...blocks].join('\n\n')
    })
    .join('\n\n')
}

function snippetsFor(id: string, models: AgentModel[]): AgentSnippet[] {
  const model = agentModels(models).find(row => row.id === id)!
  return agentSnippets({ origin: 'http://localhost:3000', key: 'svc_sk_test_…', model, models })
}

function blockOf({ language, code }: AgentSnippet): string {
  return `\`\`\`${language}\n${code}\n\`\`\``
}

/** The page with the snippets in their place. Throws if it has no place for them. */
export function withSnippets(text: string): string {
  const begin = text.indexOf(markers.begin)
  const end = text.indexOf(markers.end)
  if (begin < 0 || end < begin) throw new Error('the page has no markers for the snippets')
  return `${text.slice(0, begin + markers.begin.length)}\n\n${agentSections()}\n\n${text.slice(end)}`
}

if (import.meta.main) writeFileSync(page, withSnippets(readFileSync(page, 'utf8')))
