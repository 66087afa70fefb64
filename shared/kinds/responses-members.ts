import { alike, type FileRule, type MemberTables, members, Objects, type Rule } from './member-reader.ts'

/**
 * The members of input items that may be sent, and what a provider reads in each: the input types of OpenAI's SDK
 * (github.com/openai/openai-node, src/resources/responses/responses.ts, `ResponseInputItem`), and `input_audio`.
 */

const image: FileRule = { file: 'image', form: 'link' }
const annotations = alike('type file_id filename index url title start_index end_index container_id')
const parts = new Objects()
  .add('input_text text summary_text reasoning_text', members('type text'))
  .add('output_text', members('type text', { annotations, logprobs: 'json' }))
  .add('refusal', members('type refusal'))
  .add('input_image computer_screenshot', members('type detail', { image_url: image, file_id: 'stored' }))
  .add(
    'input_file',
    members('type filename detail', {
      file_data: { file: 'document', form: 'base64' },
      file_url: { file: 'document', form: 'link' },
      file_id: 'stored',
    }),
  )
  .add('input_audio', members('type', { input_audio: alike('format', { data: { file: 'sound', form: 'base64' } }) }))
  // What a shell wrote.
  .untyped(members('stdout stderr'))

const search = alike('type query queries pattern url', { sources: alike('type url title name') })
const move = alike('type text button x y keys path scroll_x scroll_y')
const call = 'type id call_id status'
const message = members('type id role phase status', { content: parts })
const output = members(`${call} name namespace max_output_length`, { output: parts })

const items = new Objects()
  .untyped(message)
  .add('message', message)
  .add('function_call custom_tool_call', members(`${call} name namespace arguments input async`))
  .add(
    `function_call_output custom_tool_call_output computer_call_output local_shell_call_output shell_call_output
     apply_patch_call_output`,
    output,
  )
  .add('reasoning', members('type id status encrypted_content', { summary: parts, content: parts }))
  .add('compaction compaction_summary', members('type id encrypted_content created_by'))
  .add('compaction_trigger', members('type id'))
  .add('web_search_call', members('type id status', { action: search }))
  .add(
    'file_search_call',
    members('type id status queries', {
      results: alike('file_id filename score text vector_store_id', { attributes: 'json' }),
    }),
  )
  .add(
    'image_generation_call',
    members('type id status action background output_format quality revised_prompt size error', {
      result: { file: 'image', form: 'picture', record: true },
    }),
  )
  .add(
    'code_interpreter_call',
    members('type id status code container_id', {
      outputs: new Objects()
        .add('logs', members('type logs'))
        .add('image', members('type', { url: { ...image, record: true } })),
    }),
  )
  .add('computer_call', members(call, { action: move, actions: move }))
  .add('local_shell_call', members(call, { action: 'json' }))
  .add('shell_call', members(call, { action: 'json' }))
  .add('apply_patch_call', members(call, { operation: alike('type path diff') }))
  .add(
    'mcp_list_tools',
    members('type id server_label error', {
      tools: alike('name description', { input_schema: 'json', annotations: 'json' }),
    }),
  )
  .add('mcp_approval_request', members('type id server_label name arguments'))
  .add('mcp_approval_response', members('type id approval_request_id approve reason'))
  .add('mcp_call', members('type id status server_label name arguments approval_request_id error', { output: parts }))
  .add('tool_search_call', members(`${call} execution`, { arguments: 'json' }))
  .add('tool_search_output', members(`${call} execution`, { tools: (): Objects => tools }))
  .add('additional_tools', members('type id role', { tools: (): Objects => tools }))
  // Adapters refuse or leave out all others.
  .others('ignored')

const schemas: Record<string, Rule> = { parameters: 'json', output_schema: 'json', format: 'json', filters: 'json' }
const tools: Objects = new Objects()
  .add(
    'function custom namespace apply_patch web_search web_search_2025_08_26',
    members('type name description strict defer_loading async', {
      ...schemas,
      tools: (): Objects => tools,
    }),
  )
  // Adapters leave out all others.
  .others('ignored')

/** Whether items of a type may be sent. They hold only what the client itself sent. */
export function isListedItem(type: unknown): boolean {
  return items.knows(type)
}

export const responsesMemberTables: MemberTables = { input: items, tools }
