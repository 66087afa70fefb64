import { profileOf } from '../catalog/chat-profile.ts'
import { compacts, takesNamespaces } from '../catalog/traits.ts'
import { isCompaction, type ResponsesRequest } from '../kinds/responses.ts'
import { isClientSearch, type ResponsesTool } from '../kinds/responses-tools.ts'
import type { Target } from './contract.ts'
import { isEnvelope } from './toolkit/reasoning-envelope.ts'

/**
 * Whether a target that has the format takes what a request has of its newer parts: tools that items declare, which are
 * mostly in namespaces, tools that the client searches, and the compaction of a conversation.
 */
export function takesResponses(target: Target, { input, tools }: Partial<ResponsesRequest> = {}): boolean {
  const items = Array.isArray(input) ? input : []
  const searches = takesSearches(target)
  if (!searches && tools?.some(isClientSearch)) return false
  return items.every(item => {
    if (item.type === 'additional_tools' || item.type === 'tool_search_output') {
      if (item.type === 'additional_tools' && !takesNamespaces(target)) return false
      return searches || !(item.tools as ResponsesTool[]).some(isClientSearch)
    }
    if (item.type === 'tool_search_call') return searches || item.execution !== 'client'
    if (item.type === 'compaction_trigger') return compacts(target)
    return !isCompaction(item) || compacts(target) || isEnvelope(item.encrypted_content)
  })
}

function takesSearches(target: Target): boolean {
  return profileOf(target).tool_search
}
