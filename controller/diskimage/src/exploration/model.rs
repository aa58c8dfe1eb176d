//! The state of the API server, and what each controller has read and is about to write.

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageObject {
    pub(super) uid: u8,
    pub(super) version: u8,
    pub(super) deleting: bool,
    /// Whether it is deleted in the foreground: the garbage collector deletes what it owns, and a finalizer
    /// holds it until then.
    pub(super) foreground: bool,
    /// Whether its objects exist.
    pub(super) data: bool,
}

/// A wrapper of the image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WrapperObject {
    pub(super) version: u8,
    pub(super) mark: Option<u8>,
    pub(super) bound: bool,
}

/// A write in flight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InFlightWrite {
    DeleteData { uid: u8 },
    Unprotect { uid: u8 },
    Expire { uid: u8, version: u8 },
    Mark { version: u8, mark: Option<u8>, bound: bool },
    CreateImage,
}

/// A leader of images. Its caches show three kinds of objects at different times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageController {
    pub(super) image: Option<ImageObject>,
    pub(super) wrapper: Option<WrapperObject>,
    pub(super) machine: bool,
    /// The plan of the pass needs a list.
    pub(super) lists: bool,
    pub(super) writes: Vec<InFlightWrite>,
}

/// A leader of wrappers. It reads the image live.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WrapperController {
    pub(super) wrapper: Option<WrapperObject>,
    pub(super) writes: Vec<InFlightWrite>,
}

/// The world.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct ImageExplorationState {
    pub(super) image: Option<ImageObject>,
    pub(super) wrapper: Option<WrapperObject>,
    /// A machine without a wrapper, and the UID of the image that existed when it was created.
    pub(super) machine: Option<u8>,
    pub(super) images: Vec<ImageController>,
    pub(super) wrappers: Vec<WrapperController>,
    /// Whether the image has a time to live, and whether it has ended.
    pub(super) ttl: bool,
    pub(super) expired: bool,
    /// How many images can still be created.
    pub(super) spare_images: u8,
    /// Whether users can still delete the image, delete the wrapper, and create the machine.
    pub(super) user_deletes_image: bool,
    pub(super) user_deletes_wrapper: bool,
    pub(super) user_creates_machine: bool,
    /// How often a controller can still exit.
    pub(super) exits: u8,
}

impl ImageExplorationState {
    /// A ready image, and leaders that have read everything. Without a leader of wrappers, there is no
    /// wrapper, and users can create a machine that names the image itself.
    pub(super) fn new(images: usize, wrappers: usize, ttl: bool) -> Self {
        let wrapped = wrappers > 0;
        // Two leaders of a kind have many orders of steps, so their worlds have fewer moves.
        let moves = images + wrappers < 3;
        let image = Some(ImageObject { uid: 1, version: 0, deleting: false, foreground: false, data: true });
        let wrapper = wrapped.then_some(WrapperObject { version: 0, mark: None, bound: false });
        let of_images = ImageController {
            image: image.clone(),
            wrapper: wrapper.clone(),
            machine: false,
            lists: false,
            writes: Vec::new(),
        };
        let of_wrappers = WrapperController { wrapper: wrapper.clone(), writes: Vec::new() };
        Self {
            image,
            wrapper,
            machine: None,
            images: vec![of_images; images],
            wrappers: vec![of_wrappers; wrappers],
            ttl,
            expired: false,
            spare_images: u8::from(moves),
            user_deletes_image: true,
            user_deletes_wrapper: wrapped && moves,
            user_creates_machine: !wrapped,
            exits: u8::from(moves),
        }
    }

    /// The rule that this state violates.
    pub(super) fn violation(&self) -> Option<&'static str> {
        let intact = |uid: u8| self.image.as_ref().is_some_and(|image| image.uid == uid && image.data);
        let bound = self.wrapper.as_ref().filter(|wrapper| wrapper.bound).and_then(|wrapper| wrapper.mark);
        if bound.is_some_and(|uid| !intact(uid)) {
            return Some("a bound wrapper has lost its image");
        }
        self.machine.is_some_and(|uid| !intact(uid)).then_some("a machine has lost its image")
    }
}

/// The rules that make the invariant hold. Each can be left out, to see the exploration fail.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Guards {
    /// References are listed before something is removed.
    pub(super) lists: bool,
    /// A status of a wrapper is written at the version that the pass has read.
    pub(super) wrapper_version: bool,
    /// A wrapper is bound by a read after its mark was stored.
    pub(super) second_read: bool,
    /// The end of the time to live sets the deletion timestamp, and the deletion counts again.
    pub(super) expiry_counts_again: bool,
    /// The image does not own its data.
    pub(super) data_is_not_owned: bool,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            lists: true,
            wrapper_version: true,
            second_read: true,
            expiry_counts_again: true,
            data_is_not_owned: true,
        }
    }
}
