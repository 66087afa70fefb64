import { z } from 'zod'

export const responsesTool = z
  .looseObject({
    type: z.string().describe('`function`, `custom` or `namespace`; otherwise a tool that the provider runs.'),
    name: z.string().min(1).max(128).optional(),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish().describe('Of a function: a JSON Schema of its arguments.'),
    strict: z.boolean().nullish(),
    defer_loading: z.boolean().nullish().describe('True: the model sees the tool once a `tool_search` has loaded it.'),
    execution: z.string().nullish().describe('Of a `tool_search`: `client` where the client searches.'),
    format: z
      .looseObject({ type: z.string() })
      .nullish()
      .describe('Of a custom tool: `text`, or `grammar` with `syntax` and `definition`.'),
    tools: z
      .array(z.looseObject({ type: z.string(), name: z.string().min(1).max(128).optional() }))
      .max(1024)
      .optional()
      .describe('Of a namespace: its functions and custom tools.'),
  })
  .meta({ id: 'ResponsesTool' })
export type ResponsesTool = z.infer<typeof responsesTool>

/** Whether a tool is a search for further tools that the client runs, as it runs a function (Codex's `tool_search`). */
export function isClientSearch({ type, execution }: Pick<ResponsesTool, 'type' | 'execution'>): boolean {
  return type === 'tool_search' && execution === 'client'
}

/** A tool of a request, and its path there. */
export type DeclaredTool = { tool: ResponsesTool; param: string; isInItem: boolean }
type Declaring = { tools?: readonly ResponsesTool[] | null | undefined; input?: unknown }

const none: readonly DeclaredTool[] = []
/**
 * Items that have tools: the client declares some from there on (Codex in its lite mode declares all so:
 * openai/codex#27946), or a search has loaded them.
 */
const declaringTypes: readonly unknown[] = ['additional_tools', 'tool_search_output']

/** Every tool that the model may call: those of `tools`, then those of the items, oldest first. */
export function declaredTools({ tools, input }: Declaring): readonly DeclaredTool[] {
  const listed = (tools ?? []).map((tool, index) => ({ tool, param: `tools.${index}`, isInItem: false }))
  return [...listed, ...toolsOfItems(input)]
}

/** The tools that items of a validated input have. */
export function toolsOfItems(input: unknown): readonly DeclaredTool[] {
  if (!Array.isArray(input)) return none
  return input.flatMap((item: { type?: unknown; tools?: readonly ResponsesTool[] } | null, position) => {
    if (!declaringTypes.includes(item?.type) || !Array.isArray(item!.tools)) return none
    return item!.tools.map((tool, index) => ({ tool, param: `input.${position}.tools.${index}`, isInItem: true }))
  })
}
