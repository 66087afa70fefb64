import { Alert, Button, Stack, Text } from '@mantine/core'
import { IconAlertTriangle } from '@tabler/icons-react'
import { Component, type ReactNode } from 'react'

type Props = { children: ReactNode }

/** Error boundary of a page: the navigation stays when a page throws, or cannot be loaded after an update of the gateway. */
export class Boundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render(): ReactNode {
    if (!this.state.error) return this.props.children
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
}
