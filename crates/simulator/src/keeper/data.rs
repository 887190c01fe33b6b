//! Defines the data of nodes.

use std::any::Any;
use std::fmt::Debug;
use std::rc::Rc;

/// A value that clients store in nodes. Servers copy and compare it without knowing its type.
pub trait Payload: Debug {
    /// Return the value for a downcast.
    fn as_any(&self) -> &dyn Any;

    /// Return the shared value for a downcast.
    fn into_any(self: Rc<Self>) -> Rc<dyn Any>;

    /// Return whether the other value is equal.
    fn equals(&self, other: &dyn Payload) -> bool;
}

impl<T: Any + Debug + PartialEq> Payload for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }

    fn equals(&self, other: &dyn Payload) -> bool {
        other.as_any().downcast_ref::<T>() == Some(self)
    }
}

/// The data of one node.
#[derive(Debug, Clone)]
pub enum Data {
    Text(Rc<str>),
    Number(i64),
    Payload(Rc<dyn Payload>),
}

impl Default for Data {
    fn default() -> Data {
        Data::text("")
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        match (self, other) {
            (Data::Text(one), Data::Text(other)) => one == other,
            (Data::Number(one), Data::Number(other)) => one == other,
            (Data::Payload(one), Data::Payload(other)) => (**one).equals(&**other),
            _ => false,
        }
    }
}

impl Data {
    /// Return data that is a text.
    pub fn text(text: &str) -> Data {
        Data::Text(text.into())
    }

    /// Return data that holds a value of a client's own type.
    pub fn payload(value: impl Payload + 'static) -> Data {
        Data::Payload(Rc::new(value))
    }

    /// Return the text; panic if the data is something else.
    pub fn as_text(&self) -> &str {
        match self {
            Data::Text(text) => text,
            _ => panic!("{self:?} is not a text"),
        }
    }

    /// Return the number; panic if the data is something else.
    pub fn as_number(&self) -> i64 {
        match self {
            Data::Number(number) => *number,
            _ => panic!("{self:?} is not a number"),
        }
    }

    /// Return the value if it has this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        match self {
            Data::Payload(value) => (**value).as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Return the value, shared with the node, if it has this type.
    pub fn share<T: Any>(&self) -> Option<Rc<T>> {
        match self {
            Data::Payload(value) => value.clone().into_any().downcast().ok(),
            _ => None,
        }
    }
}
