import { Badge, Text, Tooltip } from '@mantine/core'
import type { Deployment, LastError, Provider, ProviderState } from '../../../wire/operator-home.ts'
import { ago, duration } from '../../format.ts'

const states: Record<ProviderState, { label: string; color: string; tooltip: string }> = {
  healthy: { label: 'Healthy', color: 'green', tooltip: 'All circuits are closed.' },
  recovering: {
    label: 'Recovering',
    color: 'yellow',
    tooltip: 'A circuit is half open: the next request probes it.',
  },
  degraded: { label: 'Degraded', color: 'yellow', tooltip: 'Some models or API keys are not called now.' },
  down: { label: 'Down', color: 'red', tooltip: 'Nothing is called now, or every recent call failed.' },
  paused: { label: 'Paused', color: 'gray', tooltip: 'An operator paused it: it gets no new calls.' },
  not_configured: { label: 'Not configured', color: 'gray', tooltip: 'It has no API key.' },
}

export function ProviderBadge({ state }: Pick<Provider, 'state'>) {
  const { label, color, tooltip } = states[state]
  return (
    <Tooltip label={tooltip}>
      <Badge color={color} miw="max-content" tabIndex={0}>
        {label}
      </Badge>
    </Tooltip>
  )
}

/** The state of a model at a provider, with its circuit. */
export function DeploymentBadge({ deployment: { state, circuit, cooldown_ms } }: { deployment: Deployment }) {
  const tooltip = `Circuit ${circuit.replace('_', ' ')}`
  const [label, color] = {
    healthy: ['Healthy', 'green'],
    recovering: ['Recovering', 'yellow'],
    cooldown: ['Cooldown', 'yellow'],
    down: ['Down', 'red'],
  }[state] as [string, string]
  return (
    <>
      <Tooltip label={tooltip}>
        <Badge color={color} miw="max-content" tabIndex={0}>
          {label}
        </Badge>
      </Tooltip>
      <Text size="xs" c="dimmed">
        {cooldown_ms > 0 ? `retry in ${duration(cooldown_ms)}` : state === 'recovering' && 'next request probes it'}
      </Text>
    </>
  )
}

/** "3 minutes ago: HTTP 500: The server had an error." */
export function errorText({ at, reason, status, message }: LastError): string {
  const plain = status === null ? reason.replaceAll('_', ' ') : `HTTP ${status}`
  const kind = status === 404 ? `${plain} (the base URL or the model is unknown there)` : plain
  return `${ago(at)}: ${message ? `${kind}: ${message}` : kind}`
}
