import { compacts, profileOf, takesNamespaces } from '../catalog/traits.ts'
import { isCompaction, isItem, type ResponsesRequest } from '../kinds/responses.ts'
import { isClientSearch } from '../kinds/responses-tools.ts'
import type { Target } from './contract.ts'
import { isEnvelope } from './toolkit/reasoning-envelope.ts'

/**
 * Whether a target that has the format takes what a request has of its newer parts: tools that items declare, which are
 * mostly in namespaces, a search for tools that the client runs, and the compaction of a conversation.
 */
export function takesResponses(target: Target, { input, tools }: Partial<ResponsesRequest> = {}): boolean {
  const takesSearch = profileOf(target).tool_search
  if (!takesSearch && tools?.some(isClientSearch)) return false
  if (!Array.isArray(input)) return true
  return input.every(item => {
    if (isItem(item, 'additional_tools'))
      return takesNamespaces(target) && (takesSearch || !item.tools.some(isClientSearch))
    if (isItem(item, 'compaction_trigger')) return compacts(target)
    return !isCompaction(item) || compacts(target) || isEnvelope(item.encrypted_content)
  })
}
