import type Anthropic from '@anthropic-ai/sdk'
import type { ResponseInputContent, ResponseInputItem } from 'openai/resources/responses/responses'

/** What a member of a sample holds: JSON that providers read as text, whatever it is. */
export const anyJson = { any: 'JSON' }

/** Contained in every file of the tests, so that it is found again in what is sent. */
export const mark = 'FILEMARK'
const png = `iVBORw0KGgo${mark}A`
export const files = {
  image: `data:image/png;base64,${png}`,
  imageBytes: png,
  link: `http://127.0.0.1:9/${mark}.png`,
  document: `data:application/pdf;base64,JVBERi0xLjQK${mark}`,
  documentBytes: `JVBERi0xLjQK${mark}`,
  sound: `UklGRgAA${mark}`,
  raw: `${mark}${'AbC0'.repeat(300)}`,
} as const

type ItemType = NonNullable<ResponseInputItem['type']>
type Item<T> = Extract<ResponseInputItem, { type?: T | null }>
const refusedItems = ['configuration_update', 'item_reference', 'program', 'program_output'] as const
type RefusedItem = (typeof refusedItems)[number]
const call = { id: 'i1', call_id: 'c1', status: 'completed' } as const
const direct = { caller: { type: 'direct' } } as const
const input = (...content: ResponseInputContent[]) => content
const image = { type: 'input_image', detail: 'auto', image_url: files.image } as const
const text = { type: 'input_text', text: 'Hi' } as const

/** An item of every type of OpenAI's SDK that the gateway sends. A type that is new in the SDK fails the type check. */
export const items: { [T in Exclude<ItemType, RefusedItem>]: Item<T>[] } & { untyped: ResponseInputItem[] } = {
  untyped: [{ role: 'user', content: 'Hi' }],
  message: [
    { type: 'message', role: 'user', content: input(text, image) },
    { type: 'message', role: 'user', content: [{ type: 'input_file', filename: 'a.pdf', file_data: files.document }] },
    { type: 'message', role: 'user', content: [{ type: 'input_file', file_url: files.link }] },
    {
      ...{ type: 'message', role: 'assistant', id: 'm1', status: 'completed' },
      content: [
        {
          type: 'output_text',
          text: 'Hi',
          annotations: [{ type: 'url_citation', url: 'https://a.example', title: 'A', start_index: 0, end_index: 1 }],
        },
        { type: 'refusal', refusal: 'No' },
      ],
    } as Item<'message'>,
  ],
  function_call: [{ type: 'function_call', ...call, ...direct, name: 'f', namespace: 'n', arguments: '{}' }],
  custom_tool_call: [{ type: 'custom_tool_call', id: 'i1', call_id: 'c1', ...direct, name: 'f', input: 'x' }],
  function_call_output: [
    { type: 'function_call_output', ...call, ...direct, output: 'done' },
    { type: 'function_call_output', ...call, output: input(text, image) },
  ],
  custom_tool_call_output: [
    { type: 'custom_tool_call_output', call_id: 'c1', output: 'done' },
    { type: 'custom_tool_call_output', call_id: 'c1', output: input(text, image) },
  ],
  computer_call: [
    {
      ...{ type: 'computer_call', ...call, pending_safety_checks: [{ id: 's', code: 'c', message: 'm' }] },
      action: { type: 'type', text: 'x' },
    },
  ],
  computer_call_output: [
    {
      ...{ type: 'computer_call_output', ...call, acknowledged_safety_checks: [{ id: 's' }] },
      output: { type: 'computer_screenshot', image_url: files.image },
    },
  ],
  file_search_call: [
    {
      ...{ type: 'file_search_call', id: 'i1', status: 'completed', queries: ['x'] },
      results: [{ file_id: 'f', filename: 'a', score: 1, text: 'x', attributes: anyJson }],
    },
  ],
  web_search_call: [
    {
      ...{ type: 'web_search_call', id: 'i1', status: 'completed' },
      action: {
        ...{ type: 'search', query: 'x', sources: [{ type: 'url', url: 'https://a.example' }] },
        ...{ url: 'https://a.example', pattern: 'x' },
      },
    },
  ],
  image_generation_call: [
    { type: 'image_generation_call', id: 'i1', status: 'completed', revised_prompt: 'x', result: files.imageBytes },
  ],
  code_interpreter_call: [
    {
      ...{ type: 'code_interpreter_call', id: 'i1', code: 'x', container_id: 'c', status: 'completed' },
      outputs: [
        { type: 'logs', logs: 'x' },
        { type: 'image', url: files.image },
      ],
    },
  ],
  local_shell_call: [{ type: 'local_shell_call', ...call, action: anyJson as never }],
  local_shell_call_output: [{ type: 'local_shell_call_output', id: 'i1', output: 'x', status: 'completed' }],
  shell_call: [{ type: 'shell_call', ...call, ...direct, action: anyJson as never, environment: { type: 'local' } }],
  shell_call_output: [
    {
      ...{ type: 'shell_call_output', ...call, max_output_length: 10 },
      output: [{ stdout: 'x', stderr: 'y', outcome: { type: 'exit', exit_code: 0 } }],
    },
  ],
  apply_patch_call: [{ type: 'apply_patch_call', ...call, operation: { type: 'create_file', path: 'a', diff: '+x' } }],
  apply_patch_call_output: [{ type: 'apply_patch_call_output', ...call, output: 'x' }],
  mcp_list_tools: [
    {
      ...{ type: 'mcp_list_tools', id: 'i1', server_label: 's' },
      tools: [{ name: 'f', description: 'x', input_schema: anyJson, annotations: anyJson }],
    },
  ],
  mcp_approval_request: [{ type: 'mcp_approval_request', id: 'i1', arguments: '{}', name: 'f', server_label: 's' }],
  mcp_approval_response: [
    { type: 'mcp_approval_response', id: 'i1', approval_request_id: 'r', approve: true, reason: 'x' },
  ],
  mcp_call: [
    { type: 'mcp_call', id: 'i1', arguments: '{}', name: 'f', server_label: 's', output: 'x', error: 'x' as never },
  ],
  tool_search_call: [{ type: 'tool_search_call', ...call, execution: 'client', arguments: anyJson }],
  tool_search_output: [
    {
      ...{ type: 'tool_search_output', ...call, execution: 'client' },
      tools: [{ type: 'function', name: 'f', description: 'x', strict: false, parameters: anyJson }],
    },
  ],
  compaction_trigger: [{ type: 'compaction_trigger', id: 'i1' }],
  additional_tools: [
    {
      ...{ type: 'additional_tools', id: 'i1', role: 'developer' },
      tools: [
        { type: 'function', name: 'f', description: 'x', strict: false, parameters: anyJson },
        { type: 'namespace', name: 'n', description: 'x', tools: [{ type: 'custom', name: 'g', description: 'x' }] },
      ],
    },
  ],
  reasoning: [
    {
      ...{ type: 'reasoning', id: 'i1', encrypted_content: 'gAAAAemulated' },
      summary: [{ type: 'summary_text', text: 'x' }],
      content: [{ type: 'reasoning_text', text: 'x' }],
    },
  ],
  compaction: [{ type: 'compaction', id: 'i1', encrypted_content: 'x' }],
}
/** The types that are refused, so that their items are not sent. */
export const refusedTypes: readonly RefusedItem[] = refusedItems

type Block = Anthropic.Beta.BetaContentBlockParam
type BlockOf<T> = Extract<Block, { type: T }>
type RefusedBlock = 'container_upload'
const bytes = { type: 'base64', media_type: 'image/png', data: files.imageBytes } as const
const pdf = { type: 'base64', media_type: 'application/pdf', data: files.documentBytes } as const
const picture = { type: 'image', source: bytes } as const
const words: BlockOf<'text'> = {
  type: 'text',
  text: 'Hi',
  citations: [
    {
      ...{ type: 'web_search_result_location', cited_text: 'x', title: 't', encrypted_index: 'e' },
      ...{ url: 'https://a.example', source: 'https://a.example' },
    },
  ],
  cache_control: { type: 'ephemeral' },
}

/** A block of every type of Anthropic's SDK that the gateway sends. A type that is new there fails the type check. */
export const blocks: { [T in Exclude<Block['type'], RefusedBlock>]: BlockOf<T>[] } = {
  text: [words],
  image: [picture, { type: 'image', source: { type: 'url', url: files.link } }],
  document: [
    { type: 'document', source: pdf, title: 'x', context: 'x', citations: { enabled: true } },
    { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } },
    { type: 'document', source: { type: 'content', content: [words, picture] } },
  ],
  search_result: [{ type: 'search_result', source: 'https://a.example', title: 'x', content: [words] }],
  thinking: [{ type: 'thinking', thinking: 'x', signature: 's' }],
  redacted_thinking: [{ type: 'redacted_thinking', data: 'x' }],
  tool_use: [{ type: 'tool_use', id: 't1', name: 'f', input: anyJson }],
  tool_result: [
    { type: 'tool_result', tool_use_id: 't1', content: 'x', is_error: false },
    { type: 'tool_result', tool_use_id: 't1', content: [words, picture] },
    {
      ...{ type: 'tool_result', tool_use_id: 't1' },
      content: [
        { type: 'tool_reference', tool_name: 'f' },
        {
          ...{ type: 'browser_state', tabs: [{ tab_id: '1', title: 'x', url: 'https://a.example' }] },
          state_changes: [{ type: 'download_started', download_id: '1', url: 'https://a.example' }],
        },
      ],
    },
  ],
  server_tool_use: [{ type: 'server_tool_use', id: 't1', name: 'web_search', input: anyJson }],
  web_search_tool_result: [
    {
      ...{ type: 'web_search_tool_result', tool_use_id: 't1' },
      content: [{ type: 'web_search_result', encrypted_content: 'x', title: 'x', url: 'https://a.example' }],
    },
  ],
  web_fetch_tool_result: [
    {
      ...{ type: 'web_fetch_tool_result', tool_use_id: 't1' },
      content: {
        ...{ type: 'web_fetch_result', url: 'https://a.example', retrieved_at: 'x' },
        content: { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } },
      },
    },
  ],
  advisor_tool_result: [
    {
      type: 'advisor_tool_result',
      tool_use_id: 't1',
      content: { type: 'advisor_result', text: 'x', stop_reason: 'x' },
    },
  ],
  code_execution_tool_result: [
    {
      ...{ type: 'code_execution_tool_result', tool_use_id: 't1' },
      content: { type: 'code_execution_result', stdout: 'x', stderr: 'x', return_code: 0, content: [] },
    },
  ],
  bash_code_execution_tool_result: [
    {
      ...{ type: 'bash_code_execution_tool_result', tool_use_id: 't1' },
      content: { type: 'bash_code_execution_result', stdout: 'x', stderr: 'x', return_code: 0, content: [] },
    },
  ],
  text_editor_code_execution_tool_result: [
    {
      ...{ type: 'text_editor_code_execution_tool_result', tool_use_id: 't1' },
      content: { type: 'text_editor_code_execution_view_result', file_type: 'image', content: files.imageBytes },
    },
  ],
  tool_search_tool_result: [
    {
      ...{ type: 'tool_search_tool_result', tool_use_id: 't1' },
      content: {
        type: 'tool_search_tool_search_result',
        tool_references: [{ type: 'tool_reference', tool_name: 'f' }],
      },
    },
  ],
  mcp_tool_use: [{ type: 'mcp_tool_use', id: 't1', name: 'f', server_name: 's', input: anyJson }],
  mcp_tool_result: [{ type: 'mcp_tool_result', tool_use_id: 't1', content: [words], is_error: false }],
  compaction: [{ type: 'compaction', content: 'x', encrypted_content: 'x', signature: 's' }],
  tool_addition: [
    { type: 'tool_addition', tool: { type: 'tool_reference', name: 'f' } },
    {
      type: 'tool_addition',
      tool: { type: 'tool_definition', definition: { name: 'f', input_schema: anyJson as never, description: 'x' } },
    },
  ],
  tool_removal: [{ type: 'tool_removal', tool: { type: 'tool_reference', name: 'f' } }],
  mcp_tool_listing: [{ type: 'mcp_tool_listing', mcp_server_name: 's', tools: anyJson as never }],
  fallback: [{ type: 'fallback', from: { model: 'a' }, to: { model: 'b' } }],
}
