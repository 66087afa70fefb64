import {
  alike,
  type FileRule,
  type MemberTables,
  type MemberVisitor,
  members,
  Objects,
  readMembers,
} from './member-reader.ts'
import type { MessagesRequest } from './messages.ts'

/**
 * The members of messages and blocks that may be sent, and what a provider reads in each: the input types of Anthropic's
 * SDK (github.com/anthropics/anthropic-sdk-typescript, src/resources/beta/messages/messages.ts, `BetaContentBlockParam`).
 */

const [image, imageBytes, document, documentBytes]: FileRule[] = [
  { file: 'image', form: 'link' },
  { file: 'image', form: 'base64' },
  { file: 'document', form: 'link' },
  { file: 'document', form: 'base64' },
]

/** Blocks inside of blocks. */
const inner = (): Objects => blocks
const imageSource = new Objects()
  .add('base64', members('type media_type', { data: imageBytes! }))
  .add('url', members('type', { url: image! }))
  .add('file', 'stored')
const documentSource = new Objects()
  .add('base64', members('type media_type', { data: documentBytes! }))
  .add('url', members('type', { url: document! }))
  .add('text', members('type media_type data'))
  .add('content', members('type', { content: inner }))
  .add('file', 'stored')
const citations = alike(
  `type cited_text document_index document_title file_id start_char_index end_char_index start_page_number end_page_number
   start_block_index end_block_index search_result_index source title url encrypted_index enabled`,
)
const tool = members('type name description strict max_uses mcp_server_name allowed_domains blocked_domains', {
  input_schema: 'json',
  input_examples: 'json',
  configs: 'json',
  default_config: 'json',
})
const tools = new Objects().anyType(tool)
/** Tools that the client runs. */
const clientTools = `custom bash_20241022 bash_20250124 computer_20241022 computer_20250124 computer_20251124 memory_20250818
  text_editor_20241022 text_editor_20250124 text_editor_20250429 text_editor_20250728`
/** Tools that a block may add. What others cost is reserved for those at the top level only. */
const addedTools = new Objects().untyped(tool).add(clientTools, tool).others('unknown')
const toolChange = new Objects()
  .add('tool_reference mcp_tool_reference mcp_toolset_reference', members('type name server_name'))
  .add('tool_definition', members('type', { definition: addedTools }))
  .others('unknown')
const result = members('type tool_use_id is_error toolset_name', { content: inner })
const executed = members('type stdout encrypted_stdout stderr return_code', { content: inner })
const use = members('type id name server_name toolset_name', { input: 'json' })

/** What an editor showed of a file, by the file's type. */
const views = new Map<unknown, 'text' | FileRule>([
  ['text', 'text'],
  ['image', imageBytes!],
  ['pdf', documentBytes!],
])

const blocks: Objects = new Objects()
  .add('text', members('type text', { citations }))
  .add('image', members('type', { source: imageSource }))
  .add('document', members('type title context', { source: documentSource, citations }))
  .add('search_result', members('type source title', { content: inner, citations }))
  .add('thinking', members('type thinking signature'))
  .add('redacted_thinking', members('type data'))
  .add('tool_use server_tool_use mcp_tool_use', use)
  .add(
    `tool_result mcp_tool_result web_search_tool_result web_fetch_tool_result advisor_tool_result code_execution_tool_result
     bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result`,
    result,
  )
  .add('web_search_result', members('type title url encrypted_content page_age'))
  .add('web_fetch_result', members('type url retrieved_at', { content: inner }))
  .add('advisor_result advisor_redacted_result', members('type text encrypted_content stop_reason'))
  .add('code_execution_result encrypted_code_execution_result bash_code_execution_result', executed)
  // Ids of what the code wrote: the provider reads them as text.
  .add('code_execution_output bash_code_execution_output', members('type file_id'))
  .add(
    'text_editor_code_execution_view_result',
    members('type file_type num_lines start_line total_lines', {
      content: ({ file_type: type }) => views.get(type),
    }),
  )
  .add(
    'text_editor_code_execution_create_result text_editor_code_execution_str_replace_result',
    members('type is_file_update lines new_lines new_start old_lines old_start'),
  )
  .add('tool_search_tool_search_result', members('type', { tool_references: inner }))
  .add('tool_reference', members('type tool_name'))
  .add(
    `web_search_tool_result_error web_fetch_tool_result_error advisor_tool_result_error code_execution_tool_result_error
     bash_code_execution_tool_result_error text_editor_code_execution_tool_result_error tool_search_tool_result_error`,
    members('type error_code error_message'),
  )
  .add('compaction', members('type encrypted_content signature', { content: inner, tool_changes: inner }))
  .add('tool_addition tool_removal', members('type', { tool: toolChange }))
  .add('mcp_tool_listing', members('type mcp_server_name', { tools: 'json' }))
  .add(
    'browser_state',
    members('type', {
      tabs: alike('tab_id title url active'),
      state_changes: alike('type tab_id download_id url path size_bytes error'),
    }),
  )
  .add('fallback', members('type'))
  .add('container_upload', 'stored')
  // Blocks of a type that is newer than this table, which may hold blocks of known ones.
  .others(members('type', { content: inner }))

const messages = alike('role clear_at', { content: blocks })

export const messagesMemberTables: MemberTables = { system: blocks, messages, tools }

/** How many documents a request has that are files, wherever they are. */
export function countDocuments(request: Pick<MessagesRequest, 'messages' | 'system' | 'tools'>): number {
  let count = 0
  const visitor: MemberVisitor = { file: ({ file }) => void (count += file === 'document' ? 1 : 0) }
  readMembers(request, messagesMemberTables, visitor)
  return count
}

const names = new Map([
  ['stop', 'stop_sequences'],
  ['max_completion_tokens', 'max_tokens'],
  ['response_format', 'output_config.format'],
  ['parallel_tool_calls', 'tool_choice.disable_parallel_tool_use'],
])

/** The name in a Messages request of a field by its path in a chat request; other paths stay as they are. */
export function nameInMessages(path: string): string {
  return names.get(path) ?? path
}
