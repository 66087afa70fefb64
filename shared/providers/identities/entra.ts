import type { Identity, IdentityOptions } from './identity.ts'
import { TokenIdentity } from './token-identity.ts'

/** The scope of tokens for `/openai/v1` and for Claude (docs/azure.md of openai/openai-node, README of `@anthropic-ai/foundry-sdk`). */
const scope = 'https://ai.azure.com/.default'

/**
 * An identity in Microsoft Entra ID, found as Azure's SDKs find it (`DefaultAzureCredential`): a client secret or certificate in the
 * environment, a workload identity, or a managed identity. The library is loaded for the first token.
 */
export function entraIdentity({ clock }: IdentityOptions): Identity {
  return new TokenIdentity(async () => {
    const { DefaultAzureCredential } = await import('@azure/identity')
    const { token, expiresOnTimestamp } = await new DefaultAzureCredential().getToken(scope)
    return { text: token, expiresAtMs: expiresOnTimestamp }
  }, clock)
}
