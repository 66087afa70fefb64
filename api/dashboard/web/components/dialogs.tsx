import { Drawer, type DrawerProps, Modal, type ModalProps } from '@mantine/core'
import { useEffect, useState } from 'react'

/** A dialog that is open for as long as it is rendered. */
export function OpenModal(props: Omit<ModalProps, 'opened'>) {
  useFocusBack()
  return <Modal opened {...props} />
}

/** The same at the side of the page. */
export function OpenDrawer(props: Omit<DrawerProps, 'opened'>) {
  useFocusBack()
  return <Drawer opened {...props} />
}

/** Gives the focus back at the end; the kit does so only for dialogs that stay rendered while they are closed. */
function useFocusBack(): void {
  const [before] = useState(() => document.activeElement)
  useEffect(
    () => () => {
      // What had it may be gone too, as the button of a form that led here.
      const target = before?.isConnected ? before : document.getElementById('content')
      if (target instanceof HTMLElement) target.focus({ preventScroll: true })
    },
    [before],
  )
}
