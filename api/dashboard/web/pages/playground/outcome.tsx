import { Anchor, Group, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { ApiError } from '../../api.ts'
import { Copy } from '../../components/copy.tsx'
import { ErrorDocs } from '../../components/error-docs.tsx'
import { ErrorAlert } from '../../components/states.tsx'
import { duration, exactUsd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { usePlayground } from './playground-context.ts'
import type { Facts } from './response-facts.ts'

const maxLookUps = 6
const lookUpAfterMs = 700

/** The cost of a response that did not state it, from the request log, which has it a moment later. */
function useCost({ costUsd, generationId }: Facts): number | null {
  const { client, apiKey } = usePlayground()
  const { data } = useQuery({
    queryKey: ['generation', apiKey.id, generationId],
    queryFn: () => client.json<{ cost_usd: number }>(`/v1/generation?id=${generationId}`),
    enabled: costUsd === null && generationId !== null,
    retry: maxLookUps,
    retryDelay: lookUpAfterMs,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return costUsd ?? data?.cost_usd ?? null
}

/** One line with the provider, duration and cost. */
export function FactsLine({ facts }: { facts: Facts }) {
  const cost = useCost(facts)
  const { home } = usePlace()
  const { model, provider, tokens, durationMs, generationId, isSandbox } = facts
  const words = [
    model && (provider ? `${model} at ${provider}` : model),
    tokens && `${tokens.prompt} + ${tokens.completion} tokens`,
    duration(durationMs),
    isSandbox ? 'not charged' : cost !== null && exactUsd(cost),
  ]
  return (
    <Text size="xs" c="dimmed" className="numeric">
      {words.filter(Boolean).join(' · ')}
      {generationId && (
        <>
          {' · '}
          <Anchor component={Link} href={`${home}/requests/${generationId}`} underline="always" inherit>
            view in request log
          </Anchor>
        </>
      )}
    </Text>
  )
}

/** An API error with its code, the invalid field and the request ID. */
export function ApiFailure({ error }: { error: Error }) {
  const { home } = usePlace()
  const { code, param, requestId, generationId } =
    error instanceof ApiError ? error : { code: null, param: null, requestId: null, generationId: null }
  const words = [code, param && `field ${param}`, requestId && `request ${requestId}`]
  return (
    <ErrorAlert message={error.message}>
      <Group gap={4}>
        <Text size="xs" ff="monospace" style={{ overflowWrap: 'anywhere' }}>
          {words.filter(Boolean).join(' · ')}
        </Text>
        {requestId && <Copy value={requestId} label="request ID" />}
        {generationId && (
          <Anchor component={Link} href={`${home}/requests/${generationId}`} underline="always" size="xs">
            view in request log
          </Anchor>
        )}
        {code !== null && (
          <Text size="xs">
            <ErrorDocs code={code} />
          </Text>
        )}
      </Group>
    </ErrorAlert>
  )
}
