import { Alert, Button, Stack, Text } from '@mantine/core'
import { IconAlertTriangle } from '@tabler/icons-react'
import { Component, type ComponentType, type ReactNode, useCallback, useEffect, useState } from 'react'
import { Unreachable, useRetries } from './outage.tsx'

/** `frame`: what stands around the message where there is no page. */
type Props = { children: ReactNode; frame?: ComponentType<{ children: ReactNode }> }

/** Error boundary of a page: what is around it stays when it throws, or its scripts cannot be loaded. */
export class Boundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render(): ReactNode {
    const { children, frame: Frame } = this.props
    if (!this.state.error) return children
    const message = isUnloaded(this.state.error) ? <Unloaded /> : <Broken />
    return Frame ? <Frame>{message}</Frame> : message
  }
}

/** Whether a script or a style sheet of the page could not be loaded; the words are those of Chrome, Firefox, Safari and Vite. */
function isUnloaded({ message }: Error): boolean {
  return /dynamically imported module|module script failed|preload CSS/i.test(message)
}

/** Loads the page again as soon as the gateway answers. If it does answer, it has been updated, and no longer has the scripts. */
function Unloaded() {
  const [wasAway, setAway] = useState(false)
  const [isUpdated, setUpdated] = useState(false)
  const look = useCallback(async () => {
    // The document itself, past all caches: what is in front of the gateway may answer while it is away.
    const isThere = await fetch(location.href, { method: 'HEAD', cache: 'no-store' }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (!isThere) setAway(true)
    else if (wasAway) location.reload()
    else setUpdated(true)
  }, [wasAway])
  useEffect(() => {
    void look()
  }, [look])
  const retry = useCallback(() => void look(), [look])
  useRetries(retry, wasAway)
  if (isUpdated) return <Broken />
  return wasAway ? <Unreachable says="The gateway cannot be reached. Are you offline?" onRetry={retry} /> : null
}

function Broken() {
  return (
    <Alert
      role="alert"
      color="red"
      variant="light"
      icon={<IconAlertTriangle aria-hidden />}
      title="This page could not be displayed"
    >
      <Stack gap="sm" align="flex-start">
        <Text size="sm">The gateway may have been updated since you opened the dashboard.</Text>
        <Button size="compact-sm" variant="default" onClick={() => location.reload()}>
          Reload
        </Button>
      </Stack>
    </Alert>
  )
}
